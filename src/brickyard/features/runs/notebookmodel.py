"""The model of a notebook in the pages that Databricks exports: base64 of URL-encoded JSON, which clients look for by the name
__DATABRICKS_NOTEBOOK_MODEL. It is not documented; this has the fields that programs in public repositories read. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from brickyard.domain.notebookcells import NotebookCell

MAX_RESULTS = 4 << 20  # bytes of all results as JSON; the page itself has the rest
_LEFT_OUT = {"type": "ansi", "data": "This output is too large for the notebook's model. The page has it."}
_STATES = {"FINISHED": "finished", "ERROR": "error", "CANCELLED": "cancelled", "RUNNING": "running"}


def notebook_model(name: str, cells: list[NotebookCell]) -> str:
    """The text of the variable."""
    left = MAX_RESULTS
    commands = []
    for cell in cells:
        results: list[Mapping[str, Any]] = [shown for each in cell.results for shown in _results(each)]
        size = len(msgspec.json.encode(results))
        if size > left:
            results = [_LEFT_OUT]
        else:
            left -= size
        commands.append(_command(cell, results))
    languages = [cell.language for cell in cells if not cell.source.lstrip().startswith("%")]
    model = {"version": "NotebookV1", "name": name, "language": (languages or ["python"])[0], "commands": commands}
    return base64.b64encode(quote(msgspec.json.encode(model)).encode()).decode()


def _command(cell: NotebookCell, results: list[Mapping[str, Any]]) -> dict[str, Any]:
    error = next((each for each in cell.results if each.get("resultType") == "error"), {})
    return {
        "version": "CommandV1",
        "subtype": "command",
        "commandType": "auto",
        "position": float(cell.number + 1),
        "command": cell.source,
        "commandTitle": cell.title,
        "showCommandTitle": bool(cell.title),
        "state": _STATES.get(cell.state, "input"),
        "startTime": cell.start_time,
        "submitTime": cell.start_time,
        "finishTime": cell.end_time,
        "errorSummary": error.get("summary"),
        "error": error.get("cause"),
        "results": {"type": "listResults", "data": results} if results else None,
    }


def _results(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    kind, data = result.get("resultType"), result.get("data")
    if kind == "table":
        return [{"type": "table", "schema": result.get("schema") or [], "data": data or [], "overflow": result.get("truncated")}]
    if kind == "error":
        return [{"type": "error", "summary": result.get("summary"), "cause": result.get("cause")}]
    if kind in ("image", "images"):
        uris = result.get("fileNames") or [result.get("fileName")]
        parts = [str(uri).removeprefix("data:").split(";base64,", 1) for uri in uris]
        return [{"type": "mimeBundle", "data": {each[0]: each[1]}} for each in parts if len(each) == 2]
    if result.get("isHtml"):
        return [{"type": "htmlSandbox", "data": data}]
    return [{"type": "ansi", "data": f"Notebook exited: {data}" if result.get("exited") else data}]
