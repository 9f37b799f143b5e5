"""Modules of `runtime/scripts`: they run in a runtime's interpreter, and those that need the standard library load here too."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import brickyard.runtime

SCRIPTS = Path(brickyard.runtime.__file__).parent / "scripts"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
