"""Runs a program of this directory in the runtime's interpreter: `python start.py PROGRAM ARGUMENTS...`.

The directory becomes the package NAME of this process, and is not on `sys.path`: see `__init__.py`.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

NAME = "_brickyard_node"
PROGRAMS = {
    "host": "host.process",
    "kernel": "kernel.main",
    "hold-executor": "waiting.holder",
    "python-worker": "pythonworkers.worker",
    "train": "training.train",
    "train-work": "training.work",
    "compile-classes": "training.compile_classes",
    "compile-layer": "training.compile_layer",
}


def mount() -> None:
    """Makes this directory the package NAME, and removes it from `sys.path`, where Python puts the directory of the program it
    runs."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    package = ModuleType(NAME)
    package.__path__ = [here]
    sys.modules[NAME] = package


if __name__ == "__main__":
    mount()
    program = sys.argv.pop(1)
    if program == "kernel":
        import_module(f"{NAME}.kernel.paths").runtime_first()
    gc.disable()  # to look for garbage among what is imported takes a tenth of the time that it takes
    main = import_module(f"{NAME}.{PROGRAMS[program]}").main
    gc.freeze()
    gc.enable()
    sys.exit(main())
