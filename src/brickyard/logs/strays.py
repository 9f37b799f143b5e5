"""What libraries, and C code in them (gRPC), write to standard output and error past the log: lines that become its entries.

Where the log is JSON, a reader of it must not meet a line that is not. A thread reads both outputs from a pipe. What the
interpreter writes when it crashes goes to the log itself, as text: nobody would be there to read the pipe.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import sys
import threading
from collections.abc import Callable

_OUTPUTS = (1, 2)
_MOST = 64 * 1024  # bytes of a line; longer ones are cut into pieces
_GOODBYE_S = 1.0  # for the last lines, when the process ends


def capture(emit: Callable[[str], None], *, straight: Callable[[bytes], None] | None = None) -> int:
    """From now on each line of either output is given to `emit`. Returns the descriptor of what standard error was.

    `straight`: gets lines that are JSON objects already, with their newline; by default they go on to that descriptor.
    """
    log = os.dup(2)
    faulthandler.enable(file=log)
    reading, writing = os.pipe()
    for output in _OUTPUTS:
        os.dup2(writing, output)
    os.close(writing)
    reader = threading.Thread(target=_read, args=(reading, emit, straight or _writer(log)), name="stray-output", daemon=True)
    reader.start()
    atexit.register(_end, reader)
    return log


def _read(source: int, emit: Callable[[str], None], straight: Callable[[bytes], None]) -> None:
    with os.fdopen(source, "rb") as pipe:
        while line := pipe.readline(_MOST):
            text = line.rstrip()
            with contextlib.suppress(Exception):  # whatever fails to be logged, who writes must not wait for ever
                if text.startswith(b'{"') and text.endswith(b"}"):
                    straight(text + b"\n")
                elif text:
                    emit(text.decode(errors="backslashreplace"))


def _writer(log: int) -> Callable[[bytes], None]:
    def write(line: bytes) -> None:
        os.write(log, line)

    return write


def _end(reader: threading.Thread) -> None:
    """Closes the pipe, so that the reader comes to its end, unless what was started lives on and holds it open. What libraries
    say later, while the interpreter ends, is dropped."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in _OUTPUTS:
        os.dup2(nowhere, output)
    reader.join(_GOODBYE_S)
