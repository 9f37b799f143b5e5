"""A child that shares its parent's working directory."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections.abc import Mapping, Sequence

from ..processes import PR_SET_PDEATHSIG

CLONE_FS = 0x200
CLONE = {"x86_64": 56, "aarch64": 220}


class HoldError(Exception):
    """No such child can be made; the message says why."""


def spawn(argv: Sequence[str], env: Mapping[str, str], streams: tuple[int, int, int]) -> int:
    """Starts a process that shares our working directory and dies with us; returns its pid. Nothing else may run in this process
    meanwhile: C's library does not know of the fork. Raises HoldError."""
    number = CLONE.get(platform.machine())
    if number is None:
        raise HoldError(f"{platform.machine()} is no machine on which processes can share a working directory")
    libc, parent = ctypes.PyDLL(None, use_errno=True), os.getpid()
    pid = int(libc.syscall(number, CLONE_FS | signal.SIGCHLD, 0, 0, 0, 0))
    if pid < 0:
        raise HoldError(f"no process that shares our working directory can be made: {os.strerror(ctypes.get_errno())}")
    if pid == 0:
        try:
            libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != parent:  # we died in between
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGXFSZ):
                signal.signal(each, signal.SIG_DFL)
            for place, fd in enumerate(streams):
                os.dup2(fd, place)
            os.setsid()
            os.execve(argv[0], list(argv), env)  # noqa: S606 - this is how a program is started
        finally:
            os._exit(127)
    return pid


def exit_code(status: int) -> int:
    """Returns an exit code, or a signal as a negative number (Python 3.8 has no function for it)."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
