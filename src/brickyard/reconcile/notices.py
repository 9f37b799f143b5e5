"""Puts what is to be told of a run into the outbox, in the transaction that changes the run. Another loop sends it."""

from __future__ import annotations

import structlog

from brickyard.domain.run import Run
from brickyard.plan.notices import noticed
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)


def told(tx: Tx, run: Run, *, now: int) -> tuple[Run, int | None]:
    """The run, which remembers what it has told, and when it may next have something to tell by itself."""
    found = noticed(run, now=now)
    for each in tx.outbox.add(found.notices):
        log.warning(
            "notification_dropped", receiver=each.receiver, run_id=run.run_id, event=each.event.value, why="too many wait"
        )
    return found.run, found.due_ms
