"""`dbutils.secrets`: asks the node host, which has the workspace's server answer in the name of this context's user."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
from typing import Any, NamedTuple

PATIENCE_S = 60.0
_HELP = """Provides access to the secrets of the workspace.

get(scope: String, key: String): String -> the value of a secret
getBytes(scope: String, key: String): byte[] -> its bytes
list(scope: String): Seq -> the keys of a scope
listScopes: Seq -> the scopes

Values that a context has read appear in its results as [REDACTED]."""


class SecretMetadata(NamedTuple):
    key: str


class SecretScope(NamedTuple):
    name: str

    def getName(self) -> str:
        return self.name


class SecretError(Exception):
    """A secret cannot be read. `error_code` is the API's."""

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

    def ask(self, scope: str, key: str) -> Any:
        """Returns the answer. Raises SecretError."""
        if self._host is None or self._answers is None or os.getpid() != self._pid:
            raise SecretError(
                "BAD_REQUEST", "dbutils.secrets works in the context's own process only, not in one that it has forked."
            )
        with self._lock:
            self._last += 1
            question = {"id": self._last, "scope": scope, "key": key}
            try:
                self._host.sendall(json.dumps(question).encode() + b"\n")
                answer = self._next()
                while answer.get("id") != self._last:  # the answer to a call that was interrupted
                    answer = self._next()
            except (OSError, ValueError) as error:
                raise SecretError("TEMPORARILY_UNAVAILABLE", f"The node does not answer: {error}") from None
        if answer.get("error_code"):
            raise SecretError(str(answer["error_code"]), str(answer.get("message")))
        return answer

    def _next(self) -> Any:
        assert self._answers is not None  # noqa: S101 - `ask` has checked it
        line = self._answers.readline()
        if not line:
            raise OSError("it has closed the connection")
        return json.loads(line)


class Secrets:
    """`dbutils.secrets`."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def get(self, scope: str, key: str) -> str:
        """Returns the value of a secret as text."""
        return self.getBytes(scope, key).decode("utf-8")

    def getBytes(self, scope: str, key: str) -> bytes:
        """Returns the value of a secret."""
        _need("scope", scope)
        _need("key", key)
        return base64.b64decode(self._line.ask(scope, key).get("value", ""))

    def listScopes(self) -> list[SecretScope]:
        """Returns all scopes."""
        return [SecretScope(name) for name in self._line.ask("", "").get("names", ())]

    def help(self, method: str = "") -> None:
        """Prints what there is."""
        lines = _HELP.splitlines()
        print("\n".join(line for line in lines if line.startswith(method)) if method else _HELP)

    def list(self, scope: str) -> list[SecretMetadata]:  # last, because in the class its name hides the built-in type
        """Returns the keys of a scope."""
        _need("scope", scope)
        return [SecretMetadata(name) for name in self._line.ask(scope, "").get("names", ())]


def _need(name: str, value: str) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"dbutils.secrets: {name} must be a string that is not empty.")
