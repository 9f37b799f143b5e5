"""One command of a context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..wire import NOTEBOOK_MAGIC, TASK_MAGIC
from .notebookcells import NotebookCells

if TYPE_CHECKING:
    from .results import Collector


class Command:
    """One command and its outcome. Written by its context's thread, under the context's lock."""

    def __init__(self, *, command_id: str, language: str, code: str, widgets: Mapping[str, str] | None = None) -> None:
        self.command_id = command_id
        self.language = language
        self.code = code
        self.widgets = dict(widgets or {})  # the values that a person has chosen
        self.status = "Queued"
        self.results: dict[str, Any] | None = None
        self.exit_value: str | None = None  # of dbutils.notebook.exit
        self.size = 0
        self.cancelled = False
        self.output: Collector | None = None  # what it has shown so far, while it runs
        notebook = code.startswith(f"%%{NOTEBOOK_MAGIC} task ")
        self.task = notebook or code.startswith(f"%%{TASK_MAGIC}")
        self.cells = NotebookCells() if notebook else None
        self.began_ms = self.ended_ms = 0
        self.ended_s = 0.0  # time.monotonic() of its end
        self.awaited = False  # it had not ended when the node was to end: somebody wants to know its results
        self.read = False  # somebody does

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Takes one message of the kernel's output channel."""
        for each in (self.output, self.cells):
            if each is not None:
                each.take(kind, content)

    def drop(self) -> None:
        """Records that a message was too large to be read."""
        for each in (self.output, self.cells):
            if each is not None:
                each.drop()

    @property
    def over(self) -> bool:
        return self.status in ("Finished", "Error", "Cancelled")
