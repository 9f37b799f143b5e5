"""Ctrl-C while modules are imported: nothing has been begun, so the process ends at once, in one line.

An import that an exception interrupts shows where it was, or hides the exception altogether. This module is the first that the
command imports, and imports nothing that Python has not loaded by then.
"""

from __future__ import annotations

import os
import signal
import sys
import types

INTERRUPTED = 130  # the exit code
HELD_BACK = "BRICKYARD_CTRL_C_HELD_BACK"  # set by the command, which has Ctrl-C ignored while Python starts


class Importing:
    """`with Importing():` around imports on the main thread. Ctrl-C that is ignored, or cared for otherwise, stays so."""

    def __enter__(self) -> None:
        if os.environ.pop(HELD_BACK, ""):
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._ours:
            try:
                signal.signal(signal.SIGINT, _end)
            except ValueError:  # not the main thread, which Ctrl-C goes to
                self._ours = False

    def __exit__(self, *_: object) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: types.FrameType | None) -> None:
    sys.stderr.write("brickyard: interrupted.\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)
