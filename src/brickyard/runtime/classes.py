"""Our classes for Spark, compiled for a runtime at its installation, and again when another version of Brickyard changes them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

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
    _compile("compile-classes", manifest, path)
    return msgspec.structs.replace(manifest, classes=path)


def compile_layer(manifest: RuntimeManifest, sources: Sequence[str], jars: Sequence[str], out: Path) -> None:
    """Compiles the classes of directories of sources that need a layer's JARs. Raises CommandFailed and OSError."""
    _compile(
        "compile-layer", msgspec.structs.replace(compile_classes(manifest), layers={",".join(sources): tuple(jars)}), str(out)
    )


def _compile(program: str, manifest: RuntimeManifest, path: str) -> None:
    with tempfile.NamedTemporaryFile(prefix="brickyard-manifest-", suffix=".json") as draft:
        draft.write(msgspec.json.encode(manifest))
        draft.flush()
        command = [manifest.python, str(NODE_CODE / "start.py"), program, "--manifest", draft.name, "--out", path]
        run_watched(command, watch=lambda _pid, _lines: None, limit_s=LIMIT_S)
