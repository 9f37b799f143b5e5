"""Agents of the tests, wherever Slurm has started them."""

from __future__ import annotations

from pathlib import Path

import psutil


def agents_of(place: Path, instance_id: str) -> list[psutil.Process]:
    """The instance's agents: each holds its lock open. `place`: below it are the machines' directories of this test."""
    found = []
    for process in psutil.process_iter():
        try:
            opened = [file.path for file in process.open_files()]
        except (psutil.Error, OSError):
            continue
        if any(path.startswith(str(place)) and path.endswith(f"/{instance_id}/agent.lock") for path in opened):
            found.append(process)
    return found
