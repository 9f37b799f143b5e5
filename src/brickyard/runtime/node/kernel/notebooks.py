"""`%run`, and the notebooks that `dbutils.notebook.run` starts: their cells run one after the other in the user's namespace."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from IPython.core.magic import no_var_expand

from ..cells import ShownCell, cells_of, kernel_code, parse_run, shown
from ..trees import roots
from ..wire import CELL_MIME
from .dbutils import NotebookExit
from .line import AnswerError, Line
from .place import Frame, Place
from .task import TaskFailed
from .widgets import Widgets

MAX_DEPTH = 50  # of notebooks that include each other
_LANGUAGES = {".py": "python", ".sql": "sql"}  # of files


class NotebookError(Exception):
    """A notebook cannot be run; the message says why. `missing`: the workspace has nothing at its path that
    the user may read."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class CellFailed(BaseException):
    """Ends the command because a cell of an included notebook has failed, which IPython has shown."""


class _Source(NamedTuple):
    """A notebook or file that was read: its cells as code for this kernel and as people see them, and the digest of the text."""

    code: list[str]
    shown: list[ShownCell]
    digest: str


class Notebooks:
    """Runs notebooks of the workspace in one context."""

    def __init__(self, *, shell: Any, line: Line, place: Place, widgets: Widgets) -> None:
        self._shell, self._line, self._place, self._widgets = shell, line, place, widgets
        self._script: Callable[[str], Any] = shell.find_line_magic("run")

    def run_magic(self) -> Callable[[str], None]:
        """Makes `%run`."""

        @no_var_expand  # $name is ours
        def run(line: str) -> None:
            """%run PATH $name="value" ...: run a notebook or file of the workspace in this namespace, or a file of this node."""
            self._include(line)

        return run

    def notebook_magic(self, _line: str, cell: str) -> None:
        """The one command of a context in which a notebook runs by itself, `{"path", "arguments"}`; or what is left to do after a
        restart of Python within notebooks, `{"frames"}`, the outermost first."""
        wanted = json.loads(cell)
        frames = [Frame(**each) for each in wanted.get("frames") or ()]
        self._place.task_values = wanted.get("values")
        if not frames:
            arguments = {str(name): str(value) for name, value in wanted["arguments"].items()}
            frames = [Frame(str(wanted["path"]), arguments, own=True, digest="")]
        try:
            self._resume(frames)
        except NotebookError as error:
            raise TaskFailed(error, text=f"NotebookError: {error}") from None

    def _resume(self, frames: list[Frame]) -> None:
        frame, inner = frames[0], frames[1:]
        source = self._source(frame.path)
        if frame.digest not in ("", source.digest):
            raise NotebookError(f"{frame.path} was changed while it ran. Run it again.")
        frame.digest = source.digest
        if frame.own:
            self._mark({"cells": source.shown})
        with self._entered(frame):
            if inner:
                with self._shown(frame):
                    self._resume(inner)
            self._run(frame, source.code)

    @contextlib.contextmanager
    def _shown(self, frame: Frame) -> Iterator[None]:
        """Says that what is shown now belongs to the cell that has begun last. Cells of included notebooks are part of one."""
        if not frame.own:
            yield
            return
        number, failed = frame.after - 1, True
        self._mark({"begin": number})
        try:
            yield
            failed = False
        except NotebookExit:
            failed = False
            raise
        finally:
            self._mark({"end": number, "failed": failed, "widgets": self._widgets._take_used()})

    def _mark(self, mark: dict[str, Any]) -> None:
        self._shell.display_pub.publish(data={CELL_MIME: mark})

    @contextlib.contextmanager
    def _entered(self, frame: Frame) -> Iterator[None]:
        with contextlib.ExitStack() as entered:
            if frame.own:
                self._widgets._give(frame.arguments)
            else:
                entered.enter_context(self._widgets._included(frame.arguments))
            entered.enter_context(self._place.running(frame))
            yield

    def _include(self, line: str) -> None:
        words = line.split()
        if words and words[0].startswith("-"):  # IPython's options, such as -m
            self._script(line)
            return
        try:
            wanted = parse_run(line)
            try:
                path = self._place.of(wanted.path)
                source = self._source(path)
            except (ValueError, NotebookError) as error:
                if wanted.arguments or not getattr(error, "missing", True) or not _is_file_of_node(wanted.path):
                    raise
                self._script(line)
                return
        except (ValueError, NotebookError) as error:
            raise TaskFailed(error, text=f"{type(error).__name__}: {error}") from None
        if self._place.depth >= MAX_DEPTH:
            text = f"Notebooks include each other more than {MAX_DEPTH} deep, {path} among them."
            raise TaskFailed(NotebookError(text), text=f"NotebookError: {text}")
        frame = Frame(path, wanted.arguments, own=False, digest=source.digest)
        with self._entered(frame):
            self._run(frame, source.code)

    def _source(self, path: str) -> _Source:
        """Reads a notebook or file. Raises NotebookError."""
        try:
            answer = self._line.ask("%run", {"notebook": path})
            source = base64.b64decode(answer.get("value", "")).decode("utf-8-sig")
        except AnswerError as error:
            missing = error.error_code in ("RESOURCE_DOES_NOT_EXIST", "PERMISSION_DENIED")
            raise NotebookError(f"{path} cannot be run: {error}", missing=missing) from None
        except UnicodeDecodeError:
            raise NotebookError(f"{path} cannot be run: it is not text in UTF-8.") from None
        digest = hashlib.sha256(source.encode()).hexdigest()
        language = str(answer.get("language") or "")
        if language:
            cells = cells_of(source, language)
            return _Source([kernel_code(cell, language) for cell in cells], [shown(cell, language) for cell in cells], digest)
        file_language = _LANGUAGES.get(Path(path).suffix.lower())
        if file_language is None:
            raise NotebookError(f"{path} cannot be run: it is neither a notebook nor a file that ends with .py or .sql.")
        return _Source([kernel_code(source, file_language)], [shown(source, file_language)], digest)

    def _run(self, frame: Frame, cells: list[str]) -> None:
        for code in cells[frame.after :]:
            frame.after += 1
            with self._shown(frame):
                result = self._shell.run_cell(code, store_history=False)
                error = result.error_before_exec or result.error_in_exec
                if isinstance(error, NotebookExit):
                    raise error  # its value is published, and the command is over; or Python restarts
                if error is not None:
                    raise CellFailed(str(error))


def _is_file_of_node(path: str) -> bool:
    """Whether IPython's own `%run` is meant. What the workspace holds is read from there, with the user's permissions."""
    place = Path(path)
    in_workspace = str(place.resolve()).startswith(("/Workspace/", f"{roots(os.environ)['Workspace']}/"))
    return place.is_file() and not in_workspace
