"""Questions of a kernel to its node host, which answers them or has the workspace's server do so (`contexts/asking.py`)."""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import Any

from ..wire import MAX_QUESTION

PATIENCE_S = 60.0


class AnswerError(Exception):
    """A question is refused. `error_code` is the API's."""

    def __init__(self, error_code: str, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class Line:
    """The socket to the node host. For any thread of the kernel's own process."""

    def __init__(self, host: socket.socket | None) -> None:
        self._host = host
        self._answers = host.makefile("rb") if host is not None else None
        self._lock = threading.Lock()
        self._last = 0
        self._pid = os.getpid()

    def ask(self, what: str, question: dict[str, Any]) -> Any:
        """Returns the answer; `what` names the caller in errors. Raises AnswerError."""
        if self._host is None or self._answers is None or os.getpid() != self._pid:
            raise AnswerError("BAD_REQUEST", f"{what} works in the context's own process only, not in one that it has forked.")
        with self._lock:
            self._last += 1
            asked = json.dumps({**question, "id": self._last}).encode() + b"\n"
            if len(asked) > MAX_QUESTION:  # the node host would take it for nonsense, and answer nothing from then on
                text = f"{what} was given too much: {len(asked)} bytes as JSON, and {MAX_QUESTION} at most are allowed."
                raise AnswerError("INVALID_PARAMETER_VALUE", f"{text} Pass on large values as files.")
            try:
                self._host.sendall(asked)
                answer = self._next()
                while answer.get("id") != self._last:  # the answer to a call that was interrupted
                    answer = self._next()
            except (OSError, ValueError) as error:
                raise AnswerError("TEMPORARILY_UNAVAILABLE", f"The node does not answer: {error}") from None
        if answer.get("error_code"):
            raise AnswerError(str(answer["error_code"]), str(answer.get("message")))
        return answer

    def _next(self) -> Any:
        assert self._answers is not None  # noqa: S101 - `ask` has checked it
        line = self._answers.readline()
        if not line:
            raise OSError("it has closed the connection")
        return json.loads(line)
