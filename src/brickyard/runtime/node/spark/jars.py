"""Jars that are attached to a driver, before Spark starts in it or while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from py4j.protocol import Py4JJavaError

from ..jvm.scala import Scala

MUTABLE = "org.apache.spark.util.MutableURLClassLoader"


class AttachedJars:
    """The class loader of everything in the driver, to which jars can be added: what spark-submit has, too.

    Spark, its sessions, and Py4J ask the class loader of the calling thread, and a new thread has the one of the thread that made
    it. So the loader is given to all threads before Spark makes its own.
    """

    def __init__(self, scala: Scala) -> None:
        """Raises Py4JError."""
        self._scala = scala
        threads = scala.jvm.java.lang.Thread
        before = threads.currentThread().getContextClassLoader()
        self._loader = before
        if not scala.jvm.java.lang.Class.forName(MUTABLE).isInstance(before):
            none = scala.array("java.net.URL", ())
            self._loader = scala.jvm.org.apache.spark.util.MutableURLClassLoader(none, before)
            for thread in threads.getAllStackTraces().keySet():
                if before.equals(thread.getContextClassLoader()):
                    with contextlib.suppress(Py4JJavaError):  # a thread of Java's own, which refuses another loader
                        thread.setContextClassLoader(self._loader)

    def add(self, paths: Sequence[str]) -> None:
        """Makes the classes of jars known to the driver. Adding one again does nothing. Raises Py4JError."""
        for path in paths:
            self._loader.addURL(self._scala.jvm.java.io.File(path).toURI().toURL())
