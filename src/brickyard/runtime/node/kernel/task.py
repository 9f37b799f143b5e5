"""Runs tasks inside a kernel: `%%brickyard_task` followed by a JSON object that says what to run.

    {"kind": "python", "place": "dbfs" | "file", "path", "source"}    a Python file, run like `python path parameters...`
    {"kind": "wheel", "package", "entry_point"}                       an entry point of a package, or a function in it
    {"kind": "jar", "class"}                                          the main method of a class, in the driver's JVM
    {"kind": "dbt", "project", "commands", "profile", "url"}          commands of dbt, in processes of their own

Each also takes "parameters": [...], and "wheels": [...] with paths in the workspace's files. Code runs with the names that
notebooks have (spark, dbutils, ...). Errors are shown as the task's own, without frames of this module.
"""

from __future__ import annotations

import importlib
import json
import linecache
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from ..trees import local_path, roots
from ..wire import EXIT_MIME, RESTART_MIME, TASK_MAGIC, VALUE_MIME
from .dbt import DbtFailed, run_dbt
from .largeerrors import bounded, shorten
from .place import Place
from .wheels import WheelError, add_wheel

MAGIC = TASK_MAGIC
_TOLD = frozenset((EXIT_MIME, RESTART_MIME, VALUE_MIME))


class TaskFailed(Exception):
    """Carries an error of the task's code, with the traceback from the task's first frame on, or with a text instead."""

    def __init__(self, error: BaseException, *, trace: TracebackType | None = None, text: str = "") -> None:
        self.error = bounded(error)
        super().__init__(str(self.error))
        self.trace = trace
        self.text = shorten(text)


class TaskError(Exception):
    """The task cannot run here; the message says why, and where it can."""


class JavaFailed(Exception):
    """The program threw an exception: its class, its message, and its stack trace as Java prints it."""

    def __init__(self, name: str, message: str, trace: str) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.trace = trace


def make_task_magic(
    namespace: dict[str, Any], run_main: Callable[..., None], place: Place, publisher: Any
) -> Callable[[str, str], None]:
    """Makes the cell magic; tasks run in `namespace`, which is the dictionary of `__main__`. `run_main` is the one of
    `jar.py`; `publisher` IPython's, of what is shown."""

    def run_task(_line: str, cell: str) -> None:
        task = json.loads(cell)
        _show_as_text(publisher)
        place.task_values = task.get("values") or {}
        try:
            for path in task.get("wheels") or ():
                add_wheel(Path(shown_path("dbfs", str(path))), namespace["spark"], _own_directory())
        except WheelError as error:
            raise TaskFailed(error, text=f"WheelError: {error}") from None
        if task["kind"] == "jar":
            main, output = str(task["class"]), _own_directory() / "jar-output"
            _guarded(lambda: run_main(namespace["spark"], main, _parameters(task), output))
        elif task["kind"] == "dbt":
            project = Path(shown_path("dbfs", str(task["project"])))
            _guarded(lambda: run_dbt(task, project, _own_directory()))
        else:
            _guarded(_python(task, namespace) if task["kind"] == "python" else _wheel(task))

    return run_task


def _show_as_text(publisher: Any) -> None:
    """Has a publisher print what is to be shown: a task's output is text. What the task tells its run goes on."""
    publish = publisher.publish

    def show(data: dict[str, Any], metadata: Any = None, **options: Any) -> None:
        if _TOLD.isdisjoint(data):
            if not options.get("update"):
                print(str(data.get("text/plain", "")).removesuffix("\n"))
        else:
            publish(data, metadata, **options)

    publisher.publish = show


def shown_path(place: str, path: str) -> str:
    """Returns a file's path as seen by code on this node."""
    return local_path(path, roots(os.environ)) if place == "dbfs" else path


def _own_directory() -> Path:
    """Returns a directory that is removed with this process."""
    return Path(os.environ["JUPYTER_RUNTIME_DIR"])


def _python(task: dict[str, Any], namespace: dict[str, Any]) -> Callable[[], Any]:
    path = shown_path(str(task["place"]), str(task["path"]))
    source = str(task["source"])
    sys.argv[:] = [path, *_parameters(task)]
    directory = str(Path(path).parent)
    if Path(directory).is_dir():
        sys.path.insert(0, directory)  # scripts can import their neighbours
    # For tracebacks: the file itself may not be on this node.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    namespace["__file__"] = path
    return lambda: exec(compile(source, path, "exec", dont_inherit=True), namespace)  # noqa: S102 - tasks are code to execute


def _wheel(task: dict[str, Any]) -> Callable[[], Any]:
    package, name = str(task["package"]), str(task["entry_point"])
    sys.argv[:] = [package, *_parameters(task)]

    def call() -> Any:
        from importlib.metadata import PackageNotFoundError, distribution

        try:
            found = [each for each in distribution(package).entry_points if each.name == name]
        except PackageNotFoundError:
            found = []
        function = found[0].load() if found else getattr(importlib.import_module(package.replace("-", "_")), name)
        return function()

    return call


def _parameters(task: dict[str, Any]) -> list[str]:
    return [str(each) for each in task.get("parameters") or ()]


def _guarded(work: Callable[[], Any]) -> None:
    """Runs `work`. Raises TaskFailed with its error; an exit with status 0 is not an error."""
    try:
        work()
    except SystemExit as error:
        if error.code not in (None, 0):
            raise TaskFailed(error, trace=own_frames(error.__traceback__)) from None
    except KeyboardInterrupt:
        raise
    except DbtFailed as error:
        raise TaskFailed(error, text=f"DbtFailed: {error}") from None
    except TaskError as error:
        raise TaskFailed(error, text=f"TaskError: {error}") from None
    except JavaFailed as error:
        shown = type(error.name, (Exception,), {})(error.message)
        raise TaskFailed(shown, text=error.trace) from None
    except BaseException as error:
        if type(error).__name__ == "NotebookExit":
            raise  # dbutils.notebook.exit: a result, not an error
        trace = own_frames(error.__traceback__)
        shown = bounded(error)
        text = "" if trace is not None else "".join(traceback.format_exception_only(type(shown), shown))
        raise TaskFailed(error, trace=trace, text=text) from None


def own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without the frames of this module at its beginning."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace
