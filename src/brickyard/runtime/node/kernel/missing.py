"""Says what to do where Python code needs Delta Lake and the runtime lacks it, which Python's own errors do not.

Errors of SQL and of Spark do (java/MissingFormat.java).
"""

from __future__ import annotations

from types import TracebackType

PACKAGE = "delta"
EXPLAINED = (ModuleNotFoundError, TypeError)  # errors that `explain` may know
WHAT_TO_DO = (
    "If this is Delta Lake's: this cluster started before its runtime had it, or no release suits its Spark. Run "
    "`brickyard runtime list`, which says where it is missing and why, and restart the cluster once it is there "
    "(docs/packages.md has the runtimes). Until then use tables in Parquet (the default), ORC, CSV or JSON."
)


def explain(error: BaseException, trace: TracebackType | None) -> None:
    """Adds what to do to an error that Delta's Python package causes, by its absence or by that of its jars."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == PACKAGE:
        error.msg = f"{error.msg}. {WHAT_TO_DO}"
    elif isinstance(error, TypeError) and "'JavaPackage' object is not callable" in str(error) and _passes(trace):
        error.args = (f"{error}. {WHAT_TO_DO}",)


def _passes(trace: TracebackType | None) -> bool:
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE:
            return True
        trace = trace.tb_next
    return False
