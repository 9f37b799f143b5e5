"""A cell of a notebook that ran as a task: as a driver reports it, as it is kept, and as clients see it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

MAX_CELLS = 1_000


class NotebookCell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`state`: WAITING, RUNNING, FINISHED, ERROR, CANCELLED or SKIPPED. `results`: its outputs in the order in which they were
    shown, as the command API (1.2) has them. `cut`: what of them was left out. `version` grows with each change of any cell.
    Times are epoch milliseconds."""

    number: Annotated[int, msgspec.Meta(ge=0, lt=MAX_CELLS)]
    version: Annotated[int, msgspec.Meta(ge=1, lt=1 << 53)]
    source: str = ""
    language: str = ""
    title: str = ""
    state: str = "WAITING"
    start_time: int = 0
    end_time: int = 0
    cut: str = ""
    widgets: dict[str, str] = {}
    results: list[dict[str, Any]] = []
