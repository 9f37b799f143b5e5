"""Compiles our classes that need a layer of the runtime: `start.py compile-layer --manifest FILE --out JAR`.

The manifest names our other classes, and no layer but this one: the directories of the sources with commas between them, and
the layer's JARs.
On failure: exit code 1 and a last {"error": ...} line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .compile_classes import SOURCES, compile_texts, write
from .program import run_program

if TYPE_CHECKING:
    from ..documents import ManifestDocument


def run(manifest: ManifestDocument, out: Path, scratch: Path) -> None:
    """Compiles in a separate JVM. Raises CompileError and JvmError."""
    ((names, jars),) = manifest["layers"].items()
    texts = [source.read_text() for name in names.split(",") for source in sorted((SOURCES / name).glob("*.java"))]
    write(manifest, out, scratch, lambda jvm: compile_texts(jvm, texts), layers=tuple(jars))


def main() -> int:
    return run_program(run, description="Compile our classes that need a layer.", out="the JAR to write")
