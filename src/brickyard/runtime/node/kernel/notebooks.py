"""`%run`, and the notebooks that `dbutils.notebook.run` starts: their cells run one after the other in the user's namespace."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython.core.magic import no_var_expand

from ..cells import cells_of, kernel_code, parse_run
from .dbutils import NotebookExit
from .line import AnswerError, Line
from .place import Place
from .task import TaskFailed
from .widgets import Widgets

MAX_DEPTH = 50  # of notebooks that include each other
_LANGUAGES = {".py": "python", ".sql": "sql"}  # of files


class NotebookError(Exception):
    """A notebook cannot be run; the message says why. `missing`: the workspace has nothing at its path."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class CellFailed(BaseException):
    """Ends the command because a cell of an included notebook has failed, which IPython has shown."""


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
        """The one command of a context in which a notebook runs by itself: `{"path", "arguments"}`."""
        wanted = json.loads(cell)
        self._place.path = str(wanted["path"])
        self._widgets._give({str(name): str(value) for name, value in wanted["arguments"].items()})
        self._run(self._cells(self._place.path))

    def _include(self, line: str) -> None:
        words = line.split()
        if words and words[0].startswith("-"):  # IPython's options, such as -m
            self._script(line)
            return
        try:
            wanted = parse_run(line)
            local = Path(wanted.path).is_file() and not wanted.arguments
            try:
                path = self._place.of(wanted.path)
                cells = self._cells(path)
            except (ValueError, NotebookError) as error:
                if not local or not getattr(error, "missing", True):
                    raise
                self._script(line)
                return
        except (ValueError, NotebookError) as error:
            raise TaskFailed(error, text=f"{type(error).__name__}: {error}") from None
        if self._place.depth >= MAX_DEPTH:
            text = f"Notebooks include each other more than {MAX_DEPTH} deep, {path} among them."
            raise TaskFailed(NotebookError(text), text=f"NotebookError: {text}")
        with self._place.including(path), self._widgets._included(wanted.arguments):
            self._run(cells)

    def _cells(self, path: str) -> list[str]:
        """Returns the cells of a notebook as code for this kernel. Raises NotebookError."""
        try:
            answer = self._line.ask("%run", {"notebook": path})
            source = base64.b64decode(answer.get("value", "")).decode("utf-8-sig")
        except AnswerError as error:
            missing = error.error_code == "RESOURCE_DOES_NOT_EXIST"
            raise NotebookError(f"{path} cannot be run: {error}", missing=missing) from None
        except UnicodeDecodeError:
            raise NotebookError(f"{path} cannot be run: it is not text in UTF-8.") from None
        language = str(answer.get("language") or "")
        if language:
            return [kernel_code(cell, language) for cell in cells_of(source, language)]
        file_language = _LANGUAGES.get(Path(path).suffix.lower())
        if file_language is None:
            raise NotebookError(f"{path} cannot be run: it is neither a notebook nor a file that ends with .py or .sql.")
        return [kernel_code(source, file_language)]

    def _run(self, cells: list[str]) -> None:
        outer, self._place.runs_cells = self._place.runs_cells, True
        try:
            self._run_each(cells)
        finally:
            self._place.runs_cells = outer

    def _run_each(self, cells: list[str]) -> None:
        for code in cells:
            result = self._shell.run_cell(code, store_history=False)
            error = result.error_before_exec or result.error_in_exec
            if isinstance(error, NotebookExit):
                raise error  # with its value published: the command is over
            if error is not None:
                raise CellFailed(str(error))
