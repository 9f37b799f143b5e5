"""What a SQL task runs, and its result: kept with the attempt's output.

An attempt's statements have ids that follow from the attempt, the same on every server. `SqlScript.begun` is written in the
transaction that records a statement, before it runs.
"""

from __future__ import annotations

from uuid import UUID, uuid5

import msgspec

_NAMES = UUID("6f1b7a52-2f0b-4f57-8f1e-6d0a3c0b9b4e")


class SqlParameter(msgspec.Struct, frozen=True, array_like=True):
    """The value of a parameter marker, of that type of SQL."""

    name: str
    value: str
    type: str = "STRING"


class SqlStatement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    text: str
    parameters: tuple[SqlParameter, ...] = ()


class SqlScript(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The statements of an attempt, in order, in one session. `begun`: how many are on record as begun. `catalog` and `schema`:
    where the session begins; "" is the default."""

    statements: tuple[SqlStatement, ...]
    begun: int = 0
    catalog: str = ""
    schema: str = ""


class SqlTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first rows of a result, as text. `columns`: names and types. `truncated`: the result has more."""

    columns: tuple[tuple[str, str], ...] = ()
    rows: list[list[str | None]] = []
    truncated: bool = False


def session_id(task_run_id: int, starting_ms: int) -> str:
    """The id of an attempt's session."""
    return str(uuid5(_NAMES, f"{task_run_id}/{starting_ms}"))


def statement_id(task_run_id: int, starting_ms: int, number: int) -> str:
    """The id of an attempt's statement, which are numbered from 0."""
    return str(uuid5(_NAMES, f"{task_run_id}/{starting_ms}/{number}"))
