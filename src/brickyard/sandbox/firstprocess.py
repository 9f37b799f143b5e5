"""The first process of a container: ends the others by its own end, passes signals on, and takes the exit codes of orphans.

The kernel gives a container's first process no default for signals, and makes it the parent of whatever has lost its own. The
agent is neither made for the one nor for the other, so it runs as a child.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def guarded(work: Callable[[], int], *, first: bool | None = None) -> int:
    """Does the work and returns its exit code: in a child if this is the first process (`first`: decided by the caller)."""
    if not (os.getpid() == 1 if first is None else first):
        return work()
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # until somebody can receive them: before, they would be lost
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        return work()

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for each in _PASSED_ON:
        signal.signal(each, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
