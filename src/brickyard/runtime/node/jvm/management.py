"""What the JVM's management beans can do while it runs."""

from __future__ import annotations

from .scala import Scala


def set_flag(scala: Scala, name: str, value: str) -> None:
    """Sets one of the flags that HotSpot calls manageable. Raises Py4JError."""
    face = scala.java("java.lang.Class").forName("com.sun.management.HotSpotDiagnosticMXBean")
    scala.java("java.lang.management.ManagementFactory").getPlatformMXBean(face).setVMOption(name, value)


def trim_native_heap(scala: Scala) -> None:
    """Returns what malloc keeps but nobody uses to the system. Raises Py4JError, also where Java cannot do this: before 17.0.9,
    and where libc is not glibc."""
    bean = scala.java("javax.management.ObjectName")("com.sun.management:type=DiagnosticCommand")
    given, types = scala.array("java.lang.Object", ()), scala.texts()
    # Py4J finds no method of the server's own class, so its interface's is called.
    classes = scala.java("java.lang.Class")
    parameters = [bean.getClass(), classes.forName("java.lang.String"), given.getClass(), types.getClass()]
    invoke = classes.forName("javax.management.MBeanServer").getMethod("invoke", scala.array("java.lang.Class", parameters))
    server = scala.java("java.lang.management.ManagementFactory").getPlatformMBeanServer()
    invoke.invoke(server, scala.array("java.lang.Object", [bean, "systemTrimNativeHeap", given, types]))
