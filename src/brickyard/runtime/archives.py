"""Which class-data archives or AOT caches a training has made (runtime/node/training)."""

from __future__ import annotations

from pathlib import Path

from brickyard.runtime.node.jvm.archives import suffix

NAMES = ("node", "worker", "executor")


def archives_in(directory: Path, java_version: str) -> dict[str, Path]:
    """Returns what is in a directory for that Java, by name. Each file is complete or absent."""
    paths = {name: directory / f"{name}{suffix(java_version)}" for name in NAMES}
    return {name: path for name, path in paths.items() if path.is_file()}
