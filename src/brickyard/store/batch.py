"""Several units in one transaction that insert their rows together.

A create is three new rows. On its own it costs PostgreSQL five exchanges, and a commit; on SQLite each row opens every index of
its table, and the thread gives up the interpreter to those that answer requests. Creates that wait together share these. Their
rows are kept back, and sent together at the end, so a unit that raises has sent nothing and is dropped alone. Whatever else goes
wrong before the commit, the whole transaction is rolled back, and each unit is done on its own.

On PostgreSQL, units that lock rows take no part: a lock would be held until all of them are done, and taken in no fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from sqlalchemy import Connection, Engine

from brickyard.store.changeset import Changes
from brickyard.store.prepared import Keeper, Kept, Prepared
from brickyard.store.servers import Excluded
from brickyard.store.trouble import may_have_committed, trouble_of
from brickyard.store.tx import Tx
from brickyard.store.units import Outcome, Unit

Commit = Callable[[Connection, Changes], None]


class Batch(Keeper):
    """Stands in for the connection of several units. What they insert is kept back until something else is executed, or `send`:
    so each sees what it and others have written."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kept: list[Kept] = []
        self._own = 0  # the first row of the unit under way
        self._sent = False  # whether a row of the unit under way has been sent
        self.failed = False  # rows were refused, of whichever unit: nothing may be committed
        self.dialect = connection.dialect

    def begin(self) -> None:
        """A unit begins."""
        self._own, self._sent = len(self._kept), False

    def drop(self) -> bool:
        """Drops the rows of the unit under way. Returns False if that is too late."""
        del self._kept[self._own :]
        return not (self._sent or self.failed)

    def keep(self, row: Kept) -> None:
        self._kept.append(row)

    def send(self) -> None:
        """Inserts the rows, those of each statement together."""
        self._sent = self._sent or len(self._kept) > self._own
        by_statement: dict[Prepared, list[Kept]] = {}
        for row in self._kept:
            by_statement.setdefault(row.statement, []).append(row)
        self._kept.clear()
        self._own = 0
        self.failed = bool(by_statement)  # until all are there
        for statement, rows in by_statement.items():
            statement.insert_many(self._connection, rows)
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        self.send()
        return getattr(self._connection, name)


class _Apart(Exception):
    """These units cannot share a transaction."""


def insert_together(engine: Engine, units: Sequence[Unit], commit: Commit | None) -> list[Outcome] | None:
    """The outcomes of the units, once all are committed; None if nothing was, and they must be done one by one.

    A connection that is lost while it commits may have committed: the units get the error then, and are not done a second time.
    """
    changed, committing = Changes(), False
    try:
        with engine.connect() as connection, connection.begin():
            batch = Batch(connection)
            outcomes = [_one(batch, unit) for unit in units]
            batch.send()
            for outcome in outcomes:
                if outcome.changed is not None:
                    changed.add(outcome.changed)
            committing = True
            if changed and commit is not None:
                commit(connection, changed)
    except Excluded:
        return None
    except Exception as error:  # alone, each unit gets what is its own: another attempt, or its error
        if not committing:
            return None
        unsure = may_have_committed(error)
        return [each if each.error is not None else Outcome(each.unit, error=error, unsure=unsure) for each in outcomes]
    return outcomes


def _one(batch: Batch, unit: Unit) -> Outcome:
    batch.begin()
    tx = Tx(cast(Connection, batch), locking=True)
    try:
        result = unit.work(tx)
    except Exception as error:
        if not batch.drop() or trouble_of(error) is not None:
            raise _Apart from error
        return Outcome(unit, error=error)
    return Outcome(unit, result=result, changed=tx.finish())
