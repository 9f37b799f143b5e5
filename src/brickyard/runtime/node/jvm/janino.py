"""Compiles our own classes that Spark finds by name in the driver's JVM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from .scala import Scala

DRIVER_JAVA = Path(__file__).resolve().parents[1] / "java" / "driver"  # compiled in the driver when needed


@contextlib.contextmanager
def at_hand(scala: Scala, source: Path) -> Iterator[Any]:
    """Compiles a Java file. Within the context, Spark finds its classes by name; yields their class loader. Raises Py4JError
    if it does not compile.

    Spark asks the class loader of the calling thread, and every thread here has its own in the JVM.
    """
    thread = scala.jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    own = scala.compiled(source, loader)
    thread.setContextClassLoader(own)
    try:
        yield own
    finally:
        with contextlib.suppress(Py4JError):
            thread.setContextClassLoader(loader)
