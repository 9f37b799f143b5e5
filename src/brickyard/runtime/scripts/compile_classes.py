"""Compiles our classes for Spark: `python compile_classes.py --manifest FILE --out JAR`.

The compiler is the one that Spark brings for its queries, so that no JDK is needed. The JAR appears complete or not at all.
Exit code 1 and a last {"error": ...} line when it cannot be done.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from installing import run_program
from java_errors import error_text
from jvm import Jvm
from launch import JvmOptions
from processes import Spawner
from py4j.protocol import Py4JError

HOST = "127.0.0.1"
HEAP_MB = 256
SOURCES = Path(__file__).with_name("java")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources make the same JAR


class CompileError(Exception):
    """The classes could not be compiled; the message says why."""


def compile_all(jvm: Any) -> dict[str, bytes]:
    """Name -> bytes of every class. Raises Py4JError for what the runtime's Spark does not have."""
    found: dict[str, bytes] = {}
    for source in sorted(SOURCES.glob("*.java")):
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(source.read_text())
        found.update({str(name): bytes(code) for name, code in dict(compiler.getBytecodes()).items()})
    return found


def write_jar(classes: Mapping[str, bytes], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, code in sorted(classes.items()):
            jar.writestr(zipfile.ZipInfo(name.replace(".", "/") + ".class", _EPOCH), code)
    draft.replace(out)


def run(manifest: Mapping[str, Any], out: Path, scratch: Path) -> None:
    """Compile in a JVM of its own. Raises CompileError and JvmError."""
    jvm = Jvm(spawner=Spawner(), manifest=manifest, options=JvmOptions(heap_mb=HEAP_MB), node_dir=scratch, host=HOST)
    jvm.spawn()
    try:
        jvm.connect()
        write_jar(compile_all(jvm.gateway.jvm), out)
    except Py4JError as error:
        raise CompileError(error_text(error)) from error  # only now: its text is in the JVM
    finally:
        jvm.stop(5.0)


if __name__ == "__main__":
    sys.exit(run_program(run, description="Compile our classes for Spark.", out="the JAR to write"))
