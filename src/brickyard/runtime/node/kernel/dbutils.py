"""`dbutils` as far as a cluster can offer it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol

from ..trees import roots
from ..wire import EXIT_MIME, RESTART_MIME, VALUE_MIME
from .dbsecrets import Secrets
from .described import Described
from .files import Files
from .line import AnswerError, Line
from .notebookcontext import EntryPoint, NotebookContext
from .place import Place
from .widgets import Widgets

MAX_VALUE, MAX_VALUES = 48 * 1024, 250  # bytes as JSON, and how many: as at Databricks
MAX_EXIT = 10 * 1024 * 1024  # characters: what a result holds
MAX_ALL_VALUES = 256 * 1024  # bytes as JSON, of a task
LOOK_S = (0.05, 1.0)  # first and longest pause between two looks at a notebook that runs


class Publish(Protocol):
    """Shows something as output of the running command."""

    def __call__(self, bundle: dict[str, Any], /) -> None:
        """`bundle`: MIME type -> content."""
        ...


class NotebookExit(BaseException):
    """Ends the command. The user's `except Exception` does not catch it."""


class WorkflowException(Exception):
    """A notebook that `dbutils.notebook.run` has run has failed."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(f"com.databricks.WorkflowException: com.databricks.NotebookExecutionException: {state}: {why}")


class Notebook(Described):
    """Runs notebooks, and leaves the one that runs."""

    _part = "notebook"

    def __init__(self, *, publish: Publish, line: Line, place: Place, context: NotebookContext) -> None:
        self._publish, self._line, self._place = publish, line, place
        self.entry_point = EntryPoint(context)

    def exit(self, value: Any = "") -> NoReturn:
        """Ends the command, and the notebook that runs, with `value` as its result."""
        text = str(value)
        if len(text) > MAX_EXIT:
            raise ValueError(
                f"dbutils.notebook.exit was given {len(text)} characters; at most {MAX_EXIT} are allowed. Write the value to a"
                " file and exit with its path."
            )
        self._publish({EXIT_MIME: {"value": text}, "text/plain": text})
        raise NotebookExit(text)

    def run(self, path: str, timeout_seconds: int = 0, arguments: Mapping[str, str] | None = None) -> str | None:
        """Runs a notebook in a process of its own on this cluster, and returns its exit value. `timeout_seconds` 0: without a
        limit. `arguments`: the values of its widgets."""
        for name, value in (arguments or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError(f"arguments must be strings; {name!r} is {value!r}")
        run = secrets.token_hex(8)  # ours, so that an interrupt before the answer leaves nothing that runs
        wanted = {"name": run, "path": self._place.of(path), "arguments": dict(arguments or {})}
        try:
            self._ask({"run": wanted})
            return self._await(run, path, float(timeout_seconds))
        except BaseException:
            self._end(run)
            raise

    def _await(self, run: str, path: str, limit_s: float) -> str | None:
        deadline = time.monotonic() + limit_s if limit_s > 0 else float("inf")
        pause = LOOK_S[0]
        while not (answer := self._ask({"look": run}))["over"]:
            if time.monotonic() > deadline:
                raise WorkflowException("TIMEDOUT", f"{path} has not ended within {limit_s:g} s")
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.5, LOOK_S[1])
        if answer.get("error"):
            raise WorkflowException("FAILED", f"{path}: {answer['error']}\n{answer.get('cause') or ''}".rstrip())
        return None if answer.get("exit") is None else str(answer["exit"])

    def _end(self, run: str) -> None:
        with contextlib.suppress(AnswerError):  # it has ended
            self._ask({"end": run})

    def _ask(self, question: dict[str, Any]) -> Any:
        return self._line.ask("dbutils.notebook.run", question)


class Library(Described):
    """Libraries of this context's process. %pip installs them."""

    _part = "library"

    def __init__(self, *, publish: Publish, place: Place) -> None:
        self._publish, self._place = publish, place

    def restartPython(self) -> NoReturn:
        """Ends the command and replaces the Python process: its variables and modules are gone, what %pip installed stays. A
        notebook that another one runs goes on with its next cell."""
        self._publish({RESTART_MIME: self._place.rest()})
        raise NotebookExit("Python is restarted")


class TaskValues(Described):
    """Values that tasks of a job pass on. There are none outside of jobs."""

    _part = "jobs.taskValues"

    def __init__(self, publish: Publish, place: Place) -> None:
        self._publish, self._place = publish, place
        self._own: dict[str, int] = {}  # bytes by key

    def get(self, taskKey: str, key: str, default: Any = None, debugValue: Any = None) -> Any:
        """Returns the value that a task which is over has set, or `default`. Raises ValueError if there is neither. Outside of
        jobs returns `debugValue`, and raises TypeError without one."""
        given = self._place.task_values
        if given is None:
            if debugValue is None:
                raise TypeError("Must pass debugValue when calling get outside of a job context. debugValue cannot be None.")
            return debugValue
        found = given.get(taskKey, {}).get(key, default)
        if found is None:
            raise ValueError(f"Task {taskKey!r} has set no value {key!r}. Give a default, or let this task depend on it.")
        return found

    def set(self, key: str, value: Any) -> None:
        """Sets a value, which JSON can hold, for the tasks that run after this one. Does nothing outside of jobs."""
        if self._place.task_values is None:
            return
        sizes = {**self._own, str(key): len(json.dumps(value))}  # raises TypeError
        if sizes[str(key)] > MAX_VALUE or len(sizes) > MAX_VALUES or sum(sizes.values()) > MAX_ALL_VALUES:
            raise ValueError(
                f"A task sets at most {MAX_VALUES} values, of {MAX_VALUE} bytes as JSON each and {MAX_ALL_VALUES} together."
            )
        self._own = sizes
        self._publish({VALUE_MIME: {"key": str(key), "value": value}})


class Jobs(Described):
    """What tasks of jobs use: taskValues."""

    _part = "jobs"

    def __init__(self, publish: Publish, place: Place) -> None:
        self.taskValues = TaskValues(publish, place)


class Data(Described):
    """Helps to understand data."""

    _part = "data"

    def __init__(self, summarize: Callable[[Any, bool], None]) -> None:
        self._summarize = summarize

    def summarize(self, df: Any, precise: bool = False) -> None:
        """Shows statistics of every column of a Spark or pandas DataFrame. Distinct values and percentiles are estimates unless
        `precise`."""
        self._summarize(df, precise)


class DBUtils(Described):
    """Utilities for notebooks and tasks: data, fs, jobs, library, notebook, secrets, widgets. Each has a help() of its own."""

    def __init__(
        self,
        *,
        publish: Publish,
        files: Files,
        line: Line,
        place: Place,
        context: NotebookContext,
        summarize: Callable[[Any, bool], None],
    ) -> None:
        self.data = Data(summarize)
        self.fs = files
        self.jobs = Jobs(publish, place)
        self.library = Library(publish=publish, place=place)
        self.notebook = Notebook(publish=publish, line=line, place=place, context=context)
        self.secrets = Secrets(line)
        self.widgets = Widgets(publish)
        self.entry_point = self.notebook.entry_point


def make_dbutils(
    publish: Publish,
    line: Line,
    *,
    place: Place | None = None,
    cluster_id: Callable[[], str] = lambda: "",
    summarize: Callable[[Any, bool], None] = lambda frame, precise: None,
) -> DBUtils:
    """Makes `dbutils` over the workspace's files where the node shows them. `line` leads to the node host."""
    place = place or Place()
    files = Files(**{name: Path(root) for name, root in roots(os.environ).items()})

    def user() -> str:
        return str(line.ask("the notebook's context", {"about": True}).get("user") or "")

    context = NotebookContext(user=user, cluster_id=cluster_id, path=lambda: place.path)
    return DBUtils(publish=publish, files=files, line=line, place=place, context=context, summarize=summarize)
