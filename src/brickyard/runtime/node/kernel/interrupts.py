"""What SIGINT means to the kernel: the end of the code that runs, and of nothing else."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

_CELL = InteractiveShell.run_cell.__code__


def only_end_code(kernel: Any) -> None:
    """Lets SIGINT interrupt a cell, and drops it elsewhere. While a request is answered, ipykernel has it raise KeyboardInterrupt
    wherever the process is; in the event loop that ends the process, with all variables. Whoever cancels tries again."""

    def before() -> None:
        kernel.saved_sigint_handler = signal.signal(signal.SIGINT, _interrupt)

    kernel.pre_handler_hook = before


def _interrupt(_number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code is _CELL:
            raise KeyboardInterrupt
        frame = frame.f_back
