"""Renders a command's results in a notebook. Pure: takes results of the command API, yields Jupyter messages."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

MAX_ROWS = 1_000
MAX_HEIGHT = "480px"  # of a table, which scrolls beyond it
HEAD = "position: sticky; top: 0; background: var(--jp-layout-color0, white)"  # keeps column names visible while scrolling
Output = tuple[str, dict[str, Any]]  # message type, content
_TAG = re.compile(r"<[^>]*>")
_IMAGE = re.compile(r"data:(image/[a-z]+);base64,(.*)", re.DOTALL)


def outputs(results: dict[str, Any]) -> Iterator[Output]:
    """The messages that show the results, in order; an error comes last, as type `error`."""
    match results.get("resultType"):
        case "text" if results.get("isHtml"):
            yield from _text(str(results.get("summary") or ""))
            yield _display({"text/html": str(results.get("data") or ""), "text/plain": "<HTML>"})
        case "text":
            yield from _text(str(results.get("data") or ""))
        case "table":
            yield from _text(str(results.get("summary") or ""))
            yield _display(_table(results))
        case "image" | "images":
            yield from _text(_plain(str(results.get("summary") or "")))
            for name in results.get("fileNames") or [results.get("fileName")]:
                if match := _IMAGE.fullmatch(str(name or "")):
                    yield _display({match.group(1): match.group(2), "text/plain": "<image>"})
        case "error":
            yield from _text(str(results.get("data") or ""))
            yield "error", _error(results)


def _text(text: str) -> Iterator[Output]:
    if text:
        yield "stream", {"name": "stdout", "text": text if text.endswith("\n") else text + "\n"}


def _display(data: dict[str, str]) -> Output:
    return "display_data", {"data": data, "metadata": {}}


def _error(results: dict[str, Any]) -> dict[str, Any]:
    name, _, value = _plain(str(results.get("summary") or "Error")).partition(": ")
    if name == "CommandCancelled":  # the name that notebooks use
        return {"ename": "KeyboardInterrupt", "evalue": value, "traceback": [f"KeyboardInterrupt: {value}"]}
    cause = str(results.get("cause") or "")
    return {"ename": name, "evalue": value, "traceback": cause.splitlines() or [f"{name}: {value}"]}


def _plain(text: str) -> str:
    return html.unescape(_TAG.sub("", text))


def _table(results: dict[str, Any]) -> dict[str, str]:
    names = [str(column.get("name", "")) for column in results.get("schema") or []]
    rows = list(results.get("data") or [])
    shown = rows[:MAX_ROWS]
    head = "".join(f'<th style="{HEAD}">{html.escape(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row) + "</tr>" for row in shown)
    note = f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}" + (", the first of more" if results.get("truncated") else "")
    note += f"; {MAX_ROWS} are shown" if len(rows) > MAX_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    page = f'<div style="max-height: {MAX_HEIGHT}; overflow: auto">{table}</div><p>{html.escape(note)}</p>'
    lines = ["\t".join(names), *("\t".join(_cell(value) for value in row) for row in shown)]
    return {"text/html": page, "text/plain": "\n".join(lines)}


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
