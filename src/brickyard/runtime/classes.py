"""Our classes for Spark, compiled for a runtime at its installation, and again when another version of Brickyard changes them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from brickyard.domain.runtimes import RuntimeManifest, classes_path
from brickyard.runtime import NODE_CODE
from brickyard.runtime.watch import run_watched

LIMIT_S = 300.0


def with_classes(manifest: RuntimeManifest) -> RuntimeManifest | None:
    """Returns the manifest with its classes, or None if they still have to be compiled."""
    path = classes_of(manifest.home)
    return msgspec.structs.replace(manifest, classes=path) if Path(path).is_file() else None


def compile_classes(manifest: RuntimeManifest) -> RuntimeManifest:
    """Compiles the classes unless they exist. Raises CommandFailed and OSError."""
    if found := with_classes(manifest):
        return found
    path = classes_of(manifest.home)
    with tempfile.NamedTemporaryFile(prefix="brickyard-manifest-", suffix=".json") as draft:
        draft.write(msgspec.json.encode(manifest))
        draft.flush()
        command = [manifest.python, str(NODE_CODE / "start.py"), "compile-classes", "--manifest", draft.name, "--out", path]
        run_watched(command, watch=lambda _pid, _lines: None, limit_s=LIMIT_S)
    return msgspec.structs.replace(manifest, classes=path)


def classes_of(home: str) -> str:
    """Returns where the runtime at `home` keeps this version's classes."""
    places = (NODE_CODE / "java", NODE_CODE / "java" / "iceberg", NODE_CODE / "java" / "spark4")
    sources = (source for place in places for source in sorted(place.glob("*.java")))
    return classes_path(home, (source.read_bytes() for source in sources))
