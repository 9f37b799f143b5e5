"""Answers what a kernel asks over its first descriptor, a socket that no other kernel has: JSON objects, one a line.

| question | answer |
|---|---|
| scope, key | `names` or `value`, from the workspace's secrets |
| notebook | `value` (base64) and `language`, from the workspace's notebooks and files |
| about | `user`: whose context it is |
| run: name, path, arguments | nothing: a notebook of that name runs in a context of its own (`questions.py`) |
| look: a run's name | `over`, and then `exit` or `error` and `cause` |
| end: a run's name | nothing: it has ended |

Each may be answered by `error_code` and `message` instead.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any, Protocol

from ..wire import MAX_QUESTION


class Asking(Protocol):
    """A context whose kernel asks. `asks_as`: the context whose questions they are to the workspace. `bounds`: `share` and
    `reserve` of its user."""

    user: str
    asks_as: str
    bounds: tuple[int, int]


class Answerer(Protocol):
    """Answers one kernel's questions."""

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer. May block. Raises what `serve` takes for nonsense."""
        ...

    def close(self) -> None:
        """The kernel asks nothing more."""
        ...


_NONSENSE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def serve(kernel: socket.socket, answerer: Answerer) -> None:
    """Answers until the kernel ends, or says something that is no question. Closes the socket, and the answerer."""
    with contextlib.closing(answerer), contextlib.suppress(*_NONSENSE), kernel, kernel.makefile("rb") as questions:
        while line := questions.readline(MAX_QUESTION):
            asked = json.loads(line)
            answer = answerer.answer(asked)
            kernel.sendall(json.dumps({**answer, "id": asked["id"]}).encode() + b"\n")
