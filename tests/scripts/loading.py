"""The node's scripts, imported as they import each other: flat, from their own directory."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import brickyard.runtime

SCRIPTS = Path(brickyard.runtime.__file__).parent / "scripts"


def script(name: str) -> ModuleType:
    """The script module `name`. Only those that need neither pyspark nor py4j load here."""
    if str(SCRIPTS) not in sys.path:
        sys.path.append(str(SCRIPTS))
    return importlib.import_module(name)
