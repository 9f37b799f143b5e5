"""Classes of our own that Spark is to find by their names in the driver's JVM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from .scala import Scala

DRIVER_JAVA = Path(__file__).resolve().parents[1] / "java" / "driver"  # compiled in the driver, when it needs them


@contextlib.contextmanager
def at_hand(scala: Scala, source: Path) -> Iterator[Any]:
    """Compile a Java file. Within, Spark finds its classes by name; gives their class loader. Raises Py4JError when it cannot be
    compiled.

    Spark asks the class loader of the thread that calls it, and every thread here has one of its own in the JVM.
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
