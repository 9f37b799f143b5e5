"""Writes the classes of Spark that a start loads once more, in a JAR of their own, with plain classes in place of Scala's lambdas
(java/training/PlainLambdas.java): Java cannot keep those lambdas in an archive, and makes thousands of them at every start.

The JAR comes first on the class path of the JVMs that use the archives. Spark's own JARs stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from ..jvm.archives import listed
from ..jvm.errors import error_text
from ..jvm.launch import JvmOptions
from ..jvm.process import Jvm
from ..jvm.scala import Scala
from ..processes import Spawner

if TYPE_CHECKING:
    from ..documents import ManifestDocument

SOURCES = Path(__file__).resolve().parents[1] / "java" / "training"
HOST = "127.0.0.1"
HEAP_MB = 512


class RewriteError(Exception):
    """The JAR could not be written; the message says why."""


def scala_jars(manifest: ManifestDocument) -> list[Path]:
    """Returns Scala's JARs, and those of programs in Scala, Spark's first of all. Others have no such lambdas."""
    jars = Path(manifest["spark_home"], "jars")
    return sorted({*jars.glob("scala-*.jar"), *jars.glob(f"*_{manifest['scala_version']}-*.jar")})


def write_plain(manifest: ManifestDocument, records: Iterable[Path], out: Path, scratch: Path) -> int:
    """Writes the JAR `out`, which appears complete or not at all, and returns how many lambdas became classes. `records`: lists
    of loaded classes. Raises RewriteError and JvmError."""
    scratch.mkdir()
    names = scratch / "classes"
    names.write_text("\n".join(sorted({name for record in records for name in listed(record.read_text())})))
    draft = scratch / out.name
    jvm = Jvm(spawner=Spawner(), manifest=manifest, options=JvmOptions(heap_mb=HEAP_MB, worker=True), node_dir=scratch, host=HOST)
    jvm.spawn()
    try:
        jvm.connect()
        scala = Scala(jvm.gateway)
        loader = scala.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        for source in sorted(SOURCES.glob("*.java")):  # one may use those before it
            loader = scala.compiled(source, loader)
        text = scala.jvm.java.lang.Class.forName("java.lang.String")
        write = loader.loadClass("brickyard.PlainLambdas").getMethod("write", scala.array("java.lang.Class", [text] * 3))
        jars = ":".join(map(str, scala_jars(manifest)))
        count = write.invoke(None, scala.array("java.lang.Object", [str(names), jars, str(draft)]))
    except Py4JError as error:
        raise RewriteError(error_text(error)) from error  # only now, because its text is in the JVM
    finally:
        jvm.stop(5.0)
    with draft.open("rb") as file:
        os.fsync(file.fileno())  # on the disk before anything names it
    draft.replace(out)
    return int(count)
