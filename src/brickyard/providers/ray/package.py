"""The agent's code, which Ray brings to its machines: the parts of this package that an agent uses."""

from __future__ import annotations

import shutil
from pathlib import Path

import brickyard

ROOMS = ("agent", "config", "domain", "logs", "machine", "runtime", "sandbox", "storage")
FILES = ("__init__.py", "interrupts.py")
_SOURCE = Path(brickyard.__file__).parent


def staged(directory: Path) -> Path:
    """Makes the package anew in `directory`, and returns its path. Ray names it by its contents. Raises OSError."""
    package = directory / "brickyard"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(mode=0o700, parents=True)
    for room in ROOMS:
        shutil.copytree(_SOURCE / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy2(_SOURCE / name, package / name)
    return package
