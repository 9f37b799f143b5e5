"""The process that `forks` starts: it imports the modules that its command line names, then forks a child for each request.

A program of its own, which knows nothing of the tests: run as a file, with the place of its socket first. It ends when its
standard input does.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ABOVE = 200  # descriptors that are received move there, out of the way of the numbers that they are to have


def main(place: str, *modules: str) -> None:
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages of all that is imported
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(place)
    listening.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who attend to requests
    while True:
        ready, _, _ = select.select([listening.fileno(), 0], [], [])
        if 0 in ready:
            Path(place).unlink()
            Path(place).parent.rmdir()
            return
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _attend(connection)
        connection.close()


def _attend(connection: socket.socket) -> None:
    """Forks the process that is asked for, says its id, waits for its end and says how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    header, received, _, _ = socket.recv_fds(connection, 4, 32)
    size, body = int.from_bytes(header, "big"), b""
    while len(body) < size:
        body += connection.recv(size - len(body))
    request = json.loads(body)
    child = os.fork()
    if child == 0:
        connection.close()
        _become(request, received)
    try:
        connection.sendall(f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    except OSError:  # nobody wants to know
        pass
    finally:
        os._exit(0)


def _become(request: dict[str, Any], received: list[int]) -> None:
    """Calls the function as the main program of a new process would; never returns."""
    code = 1
    try:
        _equip(request, received)
        module, _, name = request["call"].partition(":")
        function: Callable[..., object] = getattr(importlib.import_module(module), name)
        code = _code(function(*request["arguments"]))
    except SystemExit as end:
        code = _code(end.code)
    except BaseException:
        traceback.print_exc()
    try:
        threading._shutdown()  # type: ignore[attr-defined] # as multiprocessing ends its children
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _equip(request: dict[str, Any], received: list[int]) -> None:
    if request["session"]:
        os.setsid()
    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, ABOVE) for each in received]
    for each in received:
        os.close(each)
    for each, number in zip(high, request["descriptors"], strict=True):
        os.dup2(each, number)  # which programs that it starts inherit
        os.close(each)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv = request["argv"]


def _code(answer: object) -> int:
    if answer is None or isinstance(answer, int):
        return int(answer or 0) & 0xFF
    print(answer, file=sys.stderr)
    return 1


if __name__ == "__main__":
    main(*sys.argv[1:])
