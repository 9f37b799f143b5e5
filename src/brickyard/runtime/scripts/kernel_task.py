"""Tasks of runs inside a kernel: `%%brickyard_task` and a JSON object below it that says what to run.

    {"kind": "python", "place": "dbfs" | "file", "path", "source", "parameters"}    a Python file, as `python path parameters...`

The file runs as `__main__` with what notebooks have (spark, dbutils, ...) in place. An error is shown as the file's own: the
frames of this module are not part of its traceback.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

MAGIC = "brickyard_task"


class TaskFailed(Exception):
    """Carries an error of the task's own code out of here, with the traceback from its first frame on."""

    def __init__(self, error: BaseException, trace: TracebackType | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.trace = trace


def make_task_magic(namespace: dict[str, Any]) -> Callable[[str, str], None]:
    """The cell magic; tasks run in `namespace`, which is the dictionary of `__main__`."""

    def run_task(_line: str, cell: str) -> None:
        task = json.loads(cell)
        if task.get("kind") != "python":
            raise ValueError(f"tasks of kind {task.get('kind')!r} are not known to this runtime")
        _run_python(task, namespace)

    return run_task


def _run_python(task: dict[str, Any], namespace: dict[str, Any]) -> None:
    path = shown_path(str(task["place"]), str(task["path"]))
    source = str(task["source"])
    sys.argv[:] = [path, *(str(each) for each in task["parameters"])]
    directory = str(Path(path).parent)
    if Path(directory).is_dir():
        sys.path.insert(0, directory)  # its neighbours can be imported, as for every script
    # For tracebacks: the file itself need not be on this node.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    namespace["__file__"] = path
    _guarded(lambda: exec(compile(source, path, "exec", dont_inherit=True), namespace), path)  # noqa: S102 - it is what tasks are


def shown_path(place: str, path: str) -> str:
    """The path of a file as code on this node knows it."""
    root = os.environ.get("DBFS_ROOT") or "/dbfs"
    return root.rstrip("/") + path if place == "dbfs" else path


def _guarded(work: Callable[[], Any], path: str) -> None:
    """Run it. Raises TaskFailed with its error; an exit with status 0 is none."""
    try:
        work()
    except SystemExit as error:
        if error.code not in (None, 0):
            raise TaskFailed(error, own_frames(error.__traceback__, path)) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if type(error).__name__ == "NotebookExit":
            raise  # dbutils.notebook.exit: a result, not an error
        raise TaskFailed(error, own_frames(error.__traceback__, path)) from None


def own_frames(trace: TracebackType | None, path: str) -> TracebackType | None:
    """The traceback from the first frame of the task's file on; all of it where there is none."""
    frame = trace
    while frame is not None:
        code: CodeType = frame.tb_frame.f_code
        if code.co_filename == path:
            return frame
        frame = frame.tb_next
    return None
