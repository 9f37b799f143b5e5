"""The Query History API, and what fills it: the gateway reports each statement when it begins and when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE, of_cluster
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.pagetokens import encode, statement_position
from brickyard.domain.periodic import Periodic
from brickyard.domain.statements import Statement, StatementOutcome, StatementPosition
from brickyard.features.queries.model import RUNNING, ListQueries, QueryFilter, QueryList, QueryRow, TimeRange
from brickyard.features.queries.rows import QueryRows, Which
from brickyard.features.queries.rules import MOST_TEXT, view
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PAGE, MOST_PAGE = 100, 1_000
EVERY_S = 30.0
PACE_S = 0.3  # between two writes: reports that come together are one commit
LOST_MS = 120_000  # after so long without a word, the server that ran a statement has ended
LOST = "The server that ran this statement has ended, or its connection was lost."
MOST_WAITING = 10_000  # reports, while the database cannot be written
DAY_MS = 86_400_000


class _Adopted(NamedTuple):
    """A statement as its client's handle names it, and its end, which is to be written."""

    statement: Statement
    outcome: StatementOutcome | None = None

    def changes(self, row: QueryRow) -> bool:
        """Whether it is that statement, and its end is not known. A handle may be made up."""
        mine = (row.user_name, row.cluster_id) == (self.statement.user_name, self.statement.cluster_id)
        return mine and (row.status == RUNNING or row.error == LOST)


class QueryHistory(Periodic):
    """One per server. `days`: how long statements are kept; 0: for ever."""

    def __init__(self, *, store: Store, clock: Clock, authorizer: Authorizer, days: float) -> None:
        super().__init__(every_s=EVERY_S, pace_s=PACE_S, database=store)
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._days = days
        self._open: dict[str, QueryRow] = {}  # that run here
        self._waiting: dict[str, QueryRow] = {}  # to be written
        self._adopted: dict[str, _Adopted] = {}  # that others have begun
        self._heard_ms = 0

    # --- what the gateway reports ---

    def began(self, statement: Statement) -> None:
        """See `StatementObserver`."""
        row = QueryRow(
            query_id=statement.statement_id,
            user_name=statement.user_name,
            cluster_id=statement.cluster_id,
            warehouse_id=statement.warehouse_id,
            session_id=statement.session_id,
            text=statement.text[:MOST_TEXT],
            source=statement.source.value,
            client_application=statement.client_application,
            started_ms=statement.started_ms,
            beat_ms=statement.started_ms,
        )
        self._open[row.query_id] = row
        self._write(row)

    def went_on(self, statement: Statement) -> None:
        """See `StatementObserver`."""
        if len(self._adopted) < MOST_WAITING:
            self._adopted[statement.statement_id] = _Adopted(statement)

    def left(self, statement: Statement) -> None:
        """See `StatementObserver`."""
        self._open.pop(statement.statement_id, None)
        self._adopted.pop(statement.statement_id, None)

    def ended(self, statement: Statement, outcome: StatementOutcome) -> None:
        """See `StatementObserver`."""
        row = self._open.pop(statement.statement_id, None)
        if row is not None:
            self._write(_over(row, outcome))
        elif statement.statement_id in self._adopted:
            self._adopted[statement.statement_id] = _Adopted(statement, outcome)
            self.wake()

    def _write(self, row: QueryRow) -> None:
        if row.query_id in self._waiting or len(self._waiting) < MOST_WAITING:
            self._waiting[row.query_id] = row
            self.wake()

    async def run_once(self) -> None:
        """Writes what was reported. From time to time says what still runs, ends what no server speaks of, and forgets."""
        now = self._clock.now_ms()
        looks = now - self._heard_ms >= EVERY_S * 1000
        rows = list(self._waiting.values())
        adopted = [each for each in self._adopted.values() if looks or each.outcome is not None]
        if looks:
            self._open = {key: msgspec.structs.replace(row, beat_ms=now) for key, row in self._open.items()}
            rows += [row for key, row in self._open.items() if key not in self._waiting]

        def work(tx: Tx) -> None:
            for row in rows:
                user = tx.users.get(row.user_name)
                tx.rows(QueryRows).put(msgspec.structs.replace(row, user_id=user.user_id if user is not None else ""))
            for each in adopted:
                known = tx.rows(QueryRows).get(each.statement.statement_id)
                if known is not None and each.changes(known):
                    tx.rows(QueryRows).put(_going_on(known, now) if each.outcome is None else _over(known, each.outcome))
            if looks:
                self._look(tx, now)

        if rows or adopted or looks:
            await self._store.write(work, background=True)
        if looks:
            self._heard_ms = now
        for row in rows:
            if self._waiting.get(row.query_id) == row:
                del self._waiting[row.query_id]
        for each in adopted:
            if each.outcome is not None and self._adopted.get(each.statement.statement_id) is each:
                del self._adopted[each.statement.statement_id]

    def _look(self, tx: Tx, now: int) -> None:
        for row in tx.rows(QueryRows).running():
            if now - row.beat_ms > LOST_MS:
                tx.rows(QueryRows).put(msgspec.structs.replace(row, status="FAILED", ended_ms=row.beat_ms, error=LOST))
        if self._days:
            tx.rows(QueryRows).forget(now - int(self._days * DAY_MS))

    # --- what clients ask ---

    async def list(self, caller: Caller, request: ListQueries) -> QueryList:
        """The statements that the caller may see, newest first: their own, and all on warehouses that they may monitor."""
        size = PAGE if request.max_results is None else request.max_results
        if not 1 <= size <= MOST_PAGE:
            raise InvalidParameterValue(f"max_results is {size}; it must be between 1 and {MOST_PAGE}.")
        after = statement_position(request.page_token)

        def work(tx: Tx) -> Sequence[QueryRow]:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="see the SQL statements of the")
            return tx.rows(QueryRows).page(
                self._which(tx, caller, request.filter_by or QueryFilter()), limit=size + 1, after=after
            )

        found = await self._store.read(work)
        page, more = found[:size], len(found) > size
        return QueryList(
            res=[view(row, with_metrics=request.include_metrics) for row in page],
            has_next_page=more,
            next_page_token=encode(StatementPosition(page[-1].started_ms, page[-1].query_id)) if more else "",
        )

    def _which(self, tx: Tx, caller: Caller, asked: QueryFilter) -> Which:
        monitored: Sequence[str] = ()
        if not caller.is_admin:
            warehouses = tx.clusters.warehouses()
            acls = self._authorizer.acls(tx, [of_cluster(each) for each in warehouses])
            monitored = [
                each.cluster_id for each, acl in zip(warehouses, acls, strict=True) if acl.allows(caller, Permission.CAN_MONITOR)
            ]
        times = asked.query_start_time_range or TimeRange()
        return Which(
            seen_by=None if caller.is_admin else caller.user_id,
            monitored=monitored,
            ids=asked.statement_ids,
            statuses=asked.statuses,
            user_ids=None if asked.user_ids is None else [str(each) for each in asked.user_ids],
            cluster_ids=asked.warehouse_ids,
            from_ms=times.start_time_ms,
            until_ms=times.end_time_ms,
        )


def _going_on(row: QueryRow, now_ms: int) -> QueryRow:
    """The statement runs; its server may have been taken for lost."""
    return msgspec.structs.replace(row, status=RUNNING, beat_ms=now_ms, ended_ms=0, error="")


def _over(row: QueryRow, outcome: StatementOutcome) -> QueryRow:
    """The statement has ended."""
    return msgspec.structs.replace(
        row,
        status=outcome.state.value,
        ended_ms=max(outcome.ended_ms, row.started_ms),
        rows_produced=outcome.rows_produced,
        error=outcome.error,
        sql_state=outcome.sql_state,
    )
