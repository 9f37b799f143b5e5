"""Trees of directories as hostile code makes them."""

from __future__ import annotations

import os
from pathlib import Path


def deep(top: Path, levels: int = 1500) -> None:
    """More nested directories than Python has stack, as any cluster can make them."""
    top.mkdir()
    current = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=current)
        below = os.open("d", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    os.close(current)
