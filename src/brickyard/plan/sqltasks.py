"""SQL tasks: what may be one, the statements that its text has, and what other tasks may refer to of its result. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.sqltasks import SqlParameter, SqlStatement, SqlTable
from brickyard.domain.tasks import Source, SqlTask
from brickyard.runtime.node.cells import COMMENTS, cells_of, unmarked
from brickyard.runtime.node.kernel.sql import split

MAX_STATEMENTS = 1_000
MAX_TEXT = 1 << 20  # characters of a task's SQL
MAX_ROWS, MAX_ROWS_BYTES = 1_000, 48 * 1024  # of a result that other tasks may refer to, as JSON
_SHOWN = 140
_PART = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<quoted> '(?:[^'\\]|\\.)*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\Z) | `(?:[^`]|``)*(?:`|\Z) )
  | \{\{ \s* (?P<braces>[^{}]+?) \s* \}\}
  | (?<![\w:)\]'"`]) :(?P<marker>[A-Za-z_]\w*)
  | (?P<other> [^-/'"`:{]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACES = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_NAME = re.compile(r"[A-Za-z_]\w*")


class SqlTextError(Exception):
    """A text that cannot be run; the message says why."""


def check(where: str, task: SqlTask) -> None:
    """Raises InvalidParameterValue for what cannot be a SQL task."""
    for name in ("alert", "dashboard"):
        if getattr(task, name) is not None:
            raise InvalidParameterValue(f"{where}sql_task.{name} is not supported: give file or query.")
    if not task.warehouse_id:
        raise InvalidParameterValue(f"{where}sql_task needs warehouse_id.")
    if (task.file is None) == (task.query is None):
        raise InvalidParameterValue(f"{where}sql_task needs one of file and query.")
    if task.query is not None and not task.query.query_id:
        raise InvalidParameterValue(f"{where}sql_task.query needs query_id.")
    if task.file is not None:
        if task.file.source is Source.GIT:
            raise InvalidParameterValue(f"{where}source GIT is not supported: copy the file to the workspace.")
        path = task.file.path
        if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise InvalidParameterValue(
                f"{where}sql_task.file.path {path[:_SHOWN]!r} must be an absolute path in the workspace, without '..'."
            )


def notebook_text(source: str) -> str:
    """The statements of a SQL notebook, without its Markdown. Raises SqlTextError for other languages."""
    if not source.startswith(f"{COMMENTS['sql']} Databricks notebook source"):
        raise SqlTextError("Only SQL notebooks run on a SQL warehouse. Run this one on a cluster.")
    found = [unmarked(cell, "sql").strip() for cell in cells_of(source, "sql")]
    code = [each.removeprefix("%sql") for each in found if not each.startswith("%md")]
    if other := next((each for each in code if each.lstrip().startswith("%")), ""):
        raise SqlTextError(f"{other.split()[0]} does not run on a SQL warehouse. Run the notebook on a cluster.")
    return "\n;\n".join(code)


def statements_of(text: str, values: Mapping[str, SqlParameter]) -> tuple[SqlStatement, ...]:
    """The statements of a text, each with the values of the parameters that it names: as `:name`, or as `{{name}}`, which within
    quotes becomes text. Raises SqlTextError."""
    if len(text) > MAX_TEXT:
        raise SqlTextError(f"The text has {len(text)} characters; at most {MAX_TEXT} are allowed.")
    found = split(text.removeprefix("\ufeff"))
    if not found:
        raise SqlTextError("The text has no SQL statement.")
    if len(found) > MAX_STATEMENTS:
        raise SqlTextError(f"The text has {len(found)} statements; at most {MAX_STATEMENTS} are allowed.")
    return tuple(_bound(each, values) for each in found)


def _bound(statement: str, values: Mapping[str, SqlParameter]) -> SqlStatement:
    used: dict[str, SqlParameter] = {}
    parts: list[str] = []
    for match in _PART.finditer(statement):
        name = match["braces"] or match["marker"]
        if match["quoted"]:
            parts.append(_within_quotes(match[0], values))
        elif not name:
            parts.append(match[0])
        elif match["braces"]:
            value = _value(name, values)
            marker = name if _NAME.fullmatch(name) else f"parameter_{len(used)}"
            used[marker] = SqlParameter(marker, value.value, value.type)
            parts.append(f":{marker}")
        else:
            if (value_ := values.get(name)) is not None:  # Spark refuses a marker without a value
                used[name] = value_
            parts.append(match[0])
    return SqlStatement(text="".join(parts), parameters=tuple(used.values()))


def _within_quotes(quoted: str, values: Mapping[str, SqlParameter]) -> str:
    return _BRACES.sub(lambda match: _escaped(_value(match[1], values).value, quoted[0]), quoted)


def _value(name: str, values: Mapping[str, SqlParameter]) -> SqlParameter:
    if (found := values.get(name)) is None:
        raise SqlTextError(f"Parameter {name[:_SHOWN]} has no value: add it to the task's parameters.")
    return found


def _escaped(value: str, quote: str) -> str:
    return value.replace("`", "``") if quote == "`" else re.sub(r"(['\"\\])", r"\\\1", value)


def rows_of(table: SqlTable) -> list[dict[str, str | None]]:
    """The first rows of a result, as far as other tasks may refer to them."""
    names = [name for name, _ in table.columns]
    rows, size = list[dict[str, str | None]](), 2
    for row in table.rows[:MAX_ROWS]:
        shown = dict(zip(names, row, strict=True))
        size += len(msgspec.json.encode(shown)) + 1
        if size > MAX_ROWS_BYTES:
            break
        rows.append(shown)
    return rows
