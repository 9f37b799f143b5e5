"""Directory trees such as hostile code makes."""

from __future__ import annotations

import os
from pathlib import Path


def deep(top: Path, levels: int = 1500) -> None:
    """Makes directories nested more deeply than Python's stack allows, as any cluster can."""
    top.mkdir()
    current = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=current)
        below = os.open("d", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    os.close(current)
