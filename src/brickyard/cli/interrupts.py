"""Defers Ctrl-C to a safe moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Iterator[None]:
    """Defers Ctrl-C until the block ends, so that whatever the block creates is recorded for cleanup. Keep the block short."""
    if threading.current_thread() is not threading.main_thread():  # Ctrl-C never arrives here
        yield
        return
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
