"""Our classes for Spark, compiled for a runtime at its installation, and again when another version of Brickyard changes them."""

from __future__ import annotations

import tempfile

import msgspec

from brickyard.domain.runtimes import RuntimeManifest
from brickyard.runtime import NODE_CODE
from brickyard.runtime.sparkclasses import classes_path, with_classes
from brickyard.runtime.watch import run_watched

LIMIT_S = 300.0


def classes_of(home: str) -> str:
    """Where the runtime at `home` keeps this version's classes. Raises OSError."""
    return classes_path(home, NODE_CODE)


def compile_classes(manifest: RuntimeManifest) -> RuntimeManifest:
    """Compiles the classes unless they exist. Raises CommandFailed and OSError."""
    if found := with_classes(manifest, NODE_CODE):
        return found
    path = classes_of(manifest.home)
    with tempfile.NamedTemporaryFile(prefix="brickyard-manifest-", suffix=".json") as draft:
        draft.write(msgspec.json.encode(manifest))
        draft.flush()
        command = [manifest.python, str(NODE_CODE / "start.py"), "compile-classes", "--manifest", draft.name, "--out", path]
        run_watched(command, watch=lambda _pid, _lines: None, limit_s=LIMIT_S)
    return msgspec.structs.replace(manifest, classes=path)
