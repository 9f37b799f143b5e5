"""Runs the main method of a user's class in the driver's JVM. One at a time, because a JVM has only one standard output."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from .task import JavaFailed, TaskError
from .wheels import in_jvm

# Frames of the code here that calls the program; they say nothing about the program.
_OURS = (
    "at jdk.internal.reflect.",
    "at java.base/jdk.internal.reflect.",
    "at java.base/java.lang.reflect.Method.invoke",
    "at py4j.",
)
KEPT = 5 * 1024 * 1024  # bytes of the program's output that are kept, from its end


def run_main(spark: Any, name: str, parameters: Sequence[str], output: Path) -> None:
    """Runs `name.main(parameters)` of the cluster's jars. Its output goes to the file `output` and is printed here when it ends.
    Raises JavaFailed, or TaskError if there is no access to the JVM."""
    if not in_jvm(spark):
        raise TaskError(
            "A JAR task runs in the driver's JVM, which this cluster keeps from its users (data_security_mode USER_ISOLATION). "
            "Run it on a cluster with data_security_mode SINGLE_USER or NONE."
        )
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    arguments = gateway.new_array(jvm.java.lang.String, len(parameters))
    for number, each in enumerate(parameters):
        arguments[number] = each
    try:
        with _printing_to(jvm, output):
            _invoke(jvm, gateway, loader, name, arguments)
    except Py4JJavaError as error:
        raise _failure(jvm, error.java_exception) from None
    finally:
        _show(output)


def _invoke(jvm: Any, gateway: Any, loader: Any, name: str, arguments: Any) -> None:
    kinds = gateway.new_array(jvm.java.lang.Class, 1)
    kinds[0] = arguments.getClass()
    given = gateway.new_array(jvm.java.lang.Object, 1)
    given[0] = arguments
    main = loader.loadClass(name).getMethod("main", kinds)
    main.setAccessible(True)  # in case the class is not public
    main.invoke(None, given)


@contextlib.contextmanager
def _printing_to(jvm: Any, output: Path) -> Any:
    """Redirects Java's standard output and error, and Scala's for this thread and the threads that it starts."""
    system = jvm.java.lang.System
    stream = jvm.java.io.PrintStream(jvm.java.io.FileOutputStream(str(output)), True, "UTF-8")
    console = getattr(getattr(jvm.scala, "Console$"), "MODULE$")
    out, err = _streams(jvm)
    system.setOut(stream)
    system.setErr(stream)
    with contextlib.suppress(Py4JError):
        console.setOutDirect(stream)
        console.setErrDirect(stream)
    try:
        yield
    finally:
        system.setOut(out)
        system.setErr(err)
        with contextlib.suppress(Py4JError):
            console.setOutDirect(out)
            console.setErrDirect(err)
        stream.close()


def _streams(jvm: Any) -> tuple[Any, Any]:
    """Returns the streams that the JVM currently prints to."""
    kind = jvm.java.lang.Class.forName("java.lang.System")
    return kind.getField("out").get(None), kind.getField("err").get(None)


def _failure(jvm: Any, thrown: Any) -> JavaFailed:
    cause = thrown.getCause() if thrown.getClass().getName() == "java.lang.reflect.InvocationTargetException" else thrown
    text = jvm.java.io.StringWriter()
    cause.printStackTrace(jvm.java.io.PrintWriter(text, True))
    lines = [line for line in str(text.toString()).splitlines() if not line.strip().startswith(_OURS)]
    return JavaFailed(str(cause.getClass().getName()), str(cause.getMessage() or ""), "\n".join(lines))


def _show(output: Path) -> None:
    with contextlib.suppress(OSError), output.open("rb") as stream:
        stream.seek(max(0, output.stat().st_size - KEPT))
        text = stream.read().decode("utf-8", "replace")
        if text:
            print(text, end="")
