"""The cells of a notebook that runs by itself, and what each has shown: kept while it runs, and until its context is destroyed.

A kernel names all cells of the notebook, then the beginning and the end of each (`CELL_MIME`). What it sends between the two
belongs to that cell: its outputs, in their order, each in the shape of a command's results (results.py). Bounded by cell and as a
whole; each cell says what of its output was left out.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from ..clock import now_ms
from ..wire import CELL_MIME, RESTART_MIME, VALUE_MIME
from .results import CAUSE_LIMIT, HTML_MIME, Collector, clean, clean_json, encoded_size, strip_ansi

LIMIT = 10 * 1024 * 1024  # bytes of all sources and outputs as ASCII JSON
CELL_LIMIT = 5 * 1024 * 1024  # of the outputs of one cell
ERROR_ROOM = 2 * 1024 * 1024  # beyond these two, for errors
ANSWER_LIMIT = 4 * 1024 * 1024  # of one answer, unless a single cell is larger
MAX_CELLS = 1_000
MAX_SOURCE = 256 * 1024  # characters of a cell's source
MAX_OUTPUTS = 200  # of one cell
MAX_WIDGETS = 100
_SHOWN = ("stream", "execute_result", "display_data", "error")


class _Cell:
    """`version`: of its last change, among the changes of all cells."""

    def __init__(self, number: int, source: str, language: str, title: str) -> None:
        self.number, self.source, self.language, self.title = number, source, language, title
        self.state = "WAITING"
        self.start_ms = self.end_ms = 0
        self.version = 0
        self.outputs: list[dict[str, Any] | list[str]] = []  # a list: the pieces of printed text
        self.size = 0
        self.cut = ""
        self.widgets: dict[str, str] = {}

    def told(self) -> dict[str, Any]:
        return {
            "number": self.number, "source": self.source, "language": self.language, "title": self.title, "state": self.state,
            "start_time": self.start_ms, "end_time": self.end_ms, "version": self.version, "cut": self.cut,
            "widgets": self.widgets, "results": [self._result(output) for output in self.outputs],
        }  # fmt: skip

    def _result(self, output: dict[str, Any] | list[str]) -> dict[str, Any]:
        if isinstance(output, dict):
            return output
        text = clean("".join(output)).replace("\r\n", "\n")
        if self.state == "RUNNING" and output is self.outputs[-1]:
            # Whole lines only: the agent hides secrets in what it is given, and half of one is another text.
            text = text[: text.rfind("\n") + 1]
        return {"resultType": "text", "data": text}


class NotebookCells:
    """Of one command. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cells: list[_Cell] = []
        self._current: _Cell | None = None
        self._version = 0
        self._left = LIMIT

    @property
    def size(self) -> int:
        with self._lock:
            return LIMIT - self._left

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Takes one message of the kernel's output channel."""
        data = content.get("data") or {}
        with self._lock:
            if kind == "display_data" and CELL_MIME in data:
                self._mark(data[CELL_MIME])
            elif self._current is not None and kind == "clear_output":
                self._clear(self._current)
            elif self._current is not None and kind in _SHOWN:
                self._add(self._current, kind, content)

    def drop(self) -> None:
        """Records that a message was too large to be read."""
        with self._lock:
            if self._current is not None:
                self._cut(self._current, "An output was too large to be read.")

    def close(self, status: str, outcome: dict[str, Any]) -> None:
        """The command is over, with this status and outcome."""
        with self._lock:
            current, self._current = self._current, None
            for cell in self._cells:
                if cell is current:
                    if outcome.get("resultType") == "error" and status != "Cancelled":
                        self._keep(cell, _shown(outcome))
                    failed = "ERROR" if outcome.get("resultType") == "error" else "FINISHED"
                    self._end(cell, "CANCELLED" if status == "Cancelled" else failed)
                elif cell.state == "WAITING":
                    cell.state = "SKIPPED"
                    self._touch(cell)

    def since(self, after: int) -> dict[str, Any]:
        """Returns the cells that have changed after that version, those that changed first come first, and whether there are
        more. `now_ms`: the clock of their times."""
        with self._lock:
            changed = sorted((cell for cell in self._cells if cell.version > after), key=lambda cell: cell.version)
            told: list[dict[str, Any]] = []
            left = ANSWER_LIMIT
            for cell in changed:
                left -= cell.size + encoded_size(cell.source)
                if told and left < 0:
                    break
                told.append(cell.told())
            return {"cells": told, "more": len(told) < len(changed), "now_ms": now_ms()}

    # ── with the lock held ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _mark(self, mark: Any) -> None:
        if not isinstance(mark, dict):
            return  # users' code can send anything
        if not self._cells and isinstance(mark.get("cells"), list):
            self._announce(mark["cells"])
            return
        number = mark.get("begin", mark.get("end"))
        if not isinstance(number, int) or not 0 <= number < len(self._cells):
            self._current = None
            return
        cell = self._cells[number]
        if "begin" in mark:
            cell.state, self._current = "RUNNING", cell
            cell.start_ms = cell.start_ms or now_ms()
            self._touch(cell)
            return
        self._current = None
        widgets = mark.get("widgets")
        if isinstance(widgets, dict):
            for name, value in list(widgets.items())[:MAX_WIDGETS]:
                cell.widgets[clean(str(name))[:200]] = clean(str(value))[:1000]
        self._end(cell, "ERROR" if mark.get("failed") else "FINISHED")

    def _announce(self, cells: list[Any]) -> None:
        for number, (source, language, title) in enumerate(cells[:MAX_CELLS]):
            text = clean(str(source))
            cell = _Cell(number, text[: min(MAX_SOURCE, self._left // 6)], str(language)[:20], clean(str(title))[:500])
            self._left -= encoded_size(cell.source)
            if cell.source != text:
                self._cut(cell, "The end of the source was left out.")
            self._cells.append(cell)
            self._touch(cell)
        if len(cells) > MAX_CELLS:
            self._cut(self._cells[-1], f"The notebook has {len(cells)} cells; the output of the first {MAX_CELLS} is kept.")

    def _end(self, cell: _Cell, state: str) -> None:
        cell.state, cell.end_ms = state, now_ms()
        self._touch(cell)

    def _touch(self, cell: _Cell) -> None:
        self._version += 1
        cell.version = self._version

    def _cut(self, cell: _Cell, why: str) -> None:
        if why not in cell.cut and len(cell.cut) < 1_000:
            cell.cut = f"{cell.cut} {why}".strip()
            self._touch(cell)

    def _clear(self, cell: _Cell) -> None:
        self._left += cell.size
        cell.size, cell.outputs, cell.cut = 0, [], ""
        self._touch(cell)

    def _add(self, cell: _Cell, kind: str, content: dict[str, Any]) -> None:
        if kind == "stream":
            self._print(cell, str(content.get("text", "")))
            return
        data = content.get("data") or {}
        if VALUE_MIME in data or RESTART_MIME in data:
            return
        collector = Collector()
        collector.take(kind, content)
        result = _shown(collector.results())
        if result["resultType"] == "text" and not result.get("isHtml") and not result.get("exited"):
            if collector.cut:
                self._cut(cell, _left_out(data))
            elif result["data"]:
                self._print(cell, f"{result['data']}\n")
            return
        self._keep(cell, result)

    def _keep(self, cell: _Cell, result: dict[str, Any]) -> None:
        """Keeps one output, if it fits. For an error there is always room, since a notebook ends with one."""
        size = len(json.dumps(result))
        more = ERROR_ROOM if result["resultType"] == "error" else 0
        if size > self._room(cell) + more or len(cell.outputs) >= MAX_OUTPUTS + bool(more):
            self._cut(cell, _left_out(result))
            return
        cell.outputs.append(result)
        self._count(cell, size)

    def _print(self, cell: _Cell, text: str) -> None:
        room, size = self._room(cell), encoded_size(text)
        fits = len(cell.outputs) < MAX_OUTPUTS or isinstance(cell.outputs[-1], list)
        if not text or not fits or size > room:
            if text:
                self._cut(cell, "The end of what it printed was left out.")
            if not fits or room < 1_000:
                return
            text = text[: room // 6]  # a character takes six bytes at most
            size = encoded_size(text)
        if not text:
            return
        last = cell.outputs[-1] if cell.outputs else None
        if isinstance(last, list):
            last.append(text)
        else:
            cell.outputs.append([text])
        self._count(cell, size)

    def _room(self, cell: _Cell) -> int:
        return min(CELL_LIMIT - cell.size, self._left)

    def _count(self, cell: _Cell, size: int) -> None:
        cell.size += size
        self._left -= size
        self._touch(cell)


def _shown(result: dict[str, Any]) -> dict[str, Any]:
    """Returns a result as it is kept: an image once, an error without what was printed before it, which the cell has already."""
    if result["resultType"] == "image":
        result = {name: value for name, value in result.items() if name != "data"}
    elif result["resultType"] == "error":
        kept = {name: value for name, value in result.items() if name != "data"}
        result = {**kept, "cause": strip_ansi(str(kept.get("cause", "")))[:CAUSE_LIMIT]}
    shown: dict[str, Any] = clean_json({name: value for name, value in result.items() if name != "values"})
    return shown


def _left_out(of: dict[str, Any]) -> str:
    """Says what was left out, given a result, or the data of a message."""
    kind = of.get("resultType", "")
    if kind == "table" or "schema" in of:
        what = "A table"
    elif kind in ("image", "images") or any(str(mime).startswith("image/") for mime in of):
        what = "An image"
    elif of.get("isHtml") or HTML_MIME in of:
        what = "HTML"
    else:
        what = "An output"
    return f"{what} was left out: it was too large. A cell keeps {CELL_LIMIT >> 20} MiB, and a notebook {LIMIT >> 20} MiB."
