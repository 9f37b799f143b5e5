"""The locks by which servers take turns at an upload."""

from __future__ import annotations

import os
from pathlib import Path

from brickyard.domain.errors import TemporarilyUnavailable
from brickyard.machine import locks

LOCK_PATIENCE_S = 20.0


def take_turn(path: Path, flags: int) -> int:
    """A descriptor that locks the file until it is closed. Raises TemporarilyUnavailable."""
    held = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if locks.take(held, patience_s=LOCK_PATIENCE_S):
        return held
    os.close(held)
    raise TemporarilyUnavailable("Another server is working on this upload. Try again.")
