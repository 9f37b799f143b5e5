"""JVM errors as text."""

from __future__ import annotations

import contextlib

from py4j.protocol import Py4JError, Py4JJavaError


def error_text(error: Exception) -> str:
    """Returns an error with its causes: Java's stack trace if there is one."""
    if isinstance(error, Py4JJavaError):
        with contextlib.suppress(Py4JError, OSError):
            trace = error.java_exception
            text, depth = [], 0
            while trace is not None and depth < 10:
                text.append(("Caused by: " if depth else "") + trace.toString())
                trace, depth = trace.getCause(), depth + 1
            return "\n".join(text)
    return str(error) or type(error).__name__
