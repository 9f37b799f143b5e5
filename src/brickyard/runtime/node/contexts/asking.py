"""Answers what a kernel asks over its first descriptor, a socket that no other kernel has: JSON objects, one a line."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any, Callable  # noqa: UP035 - Python 3.8 cannot subscript the other one

MAX_LINE = 4096  # bytes: names of a scope and a key

Ask = Callable[[str, str], "dict[str, Any]"]  # scope and key -> the answer
_NONSENSE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def serve(kernel: socket.socket, ask: Ask) -> None:
    """Answers until the kernel ends, or says something that is no question. Closes the socket."""
    with contextlib.suppress(*_NONSENSE), kernel, kernel.makefile("rb") as questions:
        while line := questions.readline(MAX_LINE):
            asked = json.loads(line)
            answer = ask(str(asked["scope"]), str(asked["key"]))
            kernel.sendall(json.dumps({**answer, "id": asked["id"]}).encode() + b"\n")
