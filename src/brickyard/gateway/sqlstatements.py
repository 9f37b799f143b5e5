"""Runs the statements of the Statement Execution API on warehouses, through the gateway's SQL."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from brickyard.access.credentials import renewed
from brickyard.access.principals import active_principal, caller_of
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import Unauthenticated
from brickyard.domain.statements import Statement
from brickyard.features.statements.model import ColumnInfo, Part, Query, StatementFailed
from brickyard.gateway.sqlentrance import SqlEntrance
from brickyard.store.store import Store
from brickyard.store.tx import Tx

if TYPE_CHECKING:
    from brickyard.gateway.sql.driver import Driver, Target

START_S = 30 * 60.0  # how long a statement waits for its warehouse
PAUSE_S = 1.0
PART_BYTES = 8 << 20


class StatementRunner:
    """One per server. What it needs of SQL is imported with the first statement."""

    def __init__(self, *, entrance: Callable[[], SqlEntrance], store: Store, clock: Clock) -> None:
        self._entrance = entrance
        self._store = store
        self._clock = clock

    async def run(self, caller: Caller, query: Query) -> AsyncIterator[Part]:
        """See `SqlRunner`."""
        from brickyard.gateway.sql.driver import Query as SparkQuery  # noqa: PLC0415 - Arrow, only where it is used
        from brickyard.gateway.sql.driver import Target  # noqa: PLC0415
        from brickyard.gateway.sql.failures import SqlFailed, refuse  # noqa: PLC0415
        from brickyard.gateway.sql.ipc import END, cut  # noqa: PLC0415
        from brickyard.gateway.sql.literals import literals  # noqa: PLC0415
        from brickyard.gateway.sql.operations import Phase  # noqa: PLC0415

        door = self._entrance().door()
        session = query.session
        session_id = session.session_id if session is not None else str(uuid.uuid4())
        target = Target(query.cluster_id, session_id, caller.user_name, self._login(caller, query.address))
        statement = Statement(
            statement_id=query.statement_id,
            user_name=caller.user_name,
            cluster_id=query.cluster_id,
            warehouse_id=query.warehouse_id,
            session_id=session_id,
            text=query.text,
            source=query.source,
            client_application=query.application,
            started_ms=self._clock.now_ms(),
        )
        begun = False  # the session: until then there is nothing to end, and a warehouse that starts is not waited for
        try:
            incarnation = await self._begin(door.driver, target)
            begun = True
            await self._use(door.driver, target, query)
            if session is not None:
                # What is refused now, or once this session has ended or is another one, never begins.
                target = target._replace(incarnation=incarnation)
                refuse(await session.refusal())
            wanted = SparkQuery(query.text, literals(query.parameters), row_limit=query.row_limit)
            operations = door.service.operations
            if session is not None and session.resume:
                operation = operations.adopt(statement, target, caller, again=wanted)
            else:
                operation = operations.begin(statement, wanted, target, caller)
            try:
                while operation.phase is Phase.RUNNING:
                    await operation.wait(60.0)
                if operation.phase is not Phase.READY:
                    raise operation.error or SqlFailed("The statement was canceled.")
                yield Part(0, operation.schema + END)
                more = True
                while more:
                    chunks, _, more = await operation.fetch(PART_BYTES)
                    if chunks:
                        stream = b"".join([operation.schema, *(bytes(cut(each.stream).batches) for each in chunks), END])
                        yield Part(sum(each.rows for each in chunks), stream)
            finally:
                # A session's statements are known to Spark until it ends: their results are not on record yet.
                left = session is not None and session.leaving()
                await asyncio.shield(operation.leave() if left else operation.close(release=session is None))
        except SqlFailed as error:
            raise StatementFailed(error.text, sql_state=error.sql_state) from error
        finally:
            if session is None and begun:
                with contextlib.suppress(SqlFailed):
                    await asyncio.shield(door.driver.end_session(target))

    async def end(self, caller: Caller, cluster_id: str, session_id: str) -> None:
        """See `SqlRunner`."""
        from brickyard.gateway.sql.driver import Target  # noqa: PLC0415 - as above
        from brickyard.gateway.sql.failures import SqlFailed  # noqa: PLC0415

        try:
            driver = self._entrance().door().driver
            await driver.end_session(Target(cluster_id, session_id, caller.user_name, self._login(caller, "")))
        except SqlFailed as error:
            raise StatementFailed(error.text, sql_state=error.sql_state) from error

    async def _begin(self, driver: Driver, target: Target) -> str:
        """Begins the session, once the warehouse runs. Returns Spark's own id of it."""
        from brickyard.gateway.sql.failures import SqlFailed  # noqa: PLC0415 - as above

        deadline = time.monotonic() + START_S
        while True:
            try:
                return await driver.configure(target, {})
            except SqlFailed as error:
                if error.code.name != "UNAVAILABLE" or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(PAUSE_S)

    async def _use(self, driver: Driver, target: Target, query: Query) -> None:
        """Begins in the catalog and the schema of the statement."""
        from brickyard.gateway.sql.metadata import quoted  # noqa: PLC0415 - as above

        if query.catalog:
            await driver.run(target, f"USE CATALOG {quoted(query.catalog)}")
        if query.schema:
            await driver.run(target, f"USE SCHEMA {quoted(query.schema)}")

    def columns(self, stream: bytes) -> list[ColumnInfo]:
        """See `SqlRunner`."""
        from brickyard.gateway.sql.results import columns_in  # noqa: PLC0415 - as above

        return columns_in(stream)

    def rows(self, stream: bytes) -> list[list[str | None]]:
        """See `SqlRunner`."""
        from brickyard.gateway.sql.results import rows_in  # noqa: PLC0415 - as above

        return rows_in(stream)

    def _login(self, caller: Caller, address: str) -> Any:
        """Calls in the caller's name, with the rights that they have then."""
        from brickyard.gateway.sql.driver import Login  # noqa: PLC0415 - as above

        made_ms = self._clock.now_ms()

        async def current() -> Caller:
            now = self._clock.now_ms()
            found = await self._store.read(lambda tx: _renewed(tx, caller, now_ms=now, made_ms=made_ms))
            if found is None:
                raise Unauthenticated("The credentials with which this statement began no longer count.")
            return found

        return Login("", address, caller=current)


def _renewed(tx: Tx, caller: Caller, *, now_ms: int, made_ms: int) -> Caller | None:
    """The caller with current rights; None if there is none any more. A task runs without a credential."""
    if caller.token_id:
        return renewed(tx, caller, now_ms=now_ms, made_by_ms=made_ms)
    owner = active_principal(tx, caller.user_name)
    return None if owner is None else caller_of(owner, token_id="")
