"""The order of `sys.path` in a kernel, which runs the interpreter of the node's Python environment.

What users install comes before the runtime's packages. While a kernel imports what it needs itself (IPython, PySpark, ...) the
runtime's packages come first: a user's version of one of them must not keep kernels from starting.
"""

from __future__ import annotations

import os
import sys


def runtime_first() -> None:
    _move(0)


def runtime_last() -> None:
    """Undoes `runtime_first`."""
    _move(len(sys.path))


def _move(place: int) -> None:
    packages = os.path.dirname(os.environ.get("SPARK_HOME", ""))  # noqa: PTH120 - a plain string, as in sys.path
    if packages in sys.path:
        sys.path.remove(packages)
        sys.path.insert(place, packages)
