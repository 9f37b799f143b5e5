"""What the JVM's management beans can do while it runs."""

from __future__ import annotations

from .scala import Scala


def set_flag(scala: Scala, name: str, value: str) -> None:
    """Sets one of the flags that HotSpot calls manageable. Raises Py4JError."""
    _invoke(scala, "HotSpotDiagnostic", "setVMOption", name, value)


def trim_native_heap(scala: Scala) -> None:
    """Returns what malloc keeps but nobody uses to the system. Raises Py4JError, also where Java cannot do this: before 17.0.9,
    and where libc is not glibc."""
    _invoke(scala, "DiagnosticCommand", "systemTrimNativeHeap")


def _invoke(scala: Scala, bean: str, operation: str, *arguments: str) -> None:
    """Calls an operation of a bean, whose arguments are all strings."""
    name = scala.java("javax.management.ObjectName")(f"com.sun.management:type={bean}")
    given, types = scala.array("java.lang.Object", arguments), scala.texts(*["java.lang.String"] * len(arguments))
    # The server's class is in a package that is not exported, so Py4J finds no method of it. The interface's can be called.
    classes = scala.java("java.lang.Class")
    parameters = scala.array(
        "java.lang.Class", [name.getClass(), classes.forName("java.lang.String"), given.getClass(), types.getClass()]
    )
    invoke = classes.forName("javax.management.MBeanServer").getMethod("invoke", parameters)
    server = scala.java("java.lang.management.ManagementFactory").getPlatformMBeanServer()
    invoke.invoke(server, scala.array("java.lang.Object", [name, operation, given, types]))
