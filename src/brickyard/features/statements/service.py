"""The Statement Execution API's calls, and the end of what is kept too long."""

from __future__ import annotations

import asyncio
import functools
import uuid
from datetime import UTC, datetime

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.delivery import Delivery, delivery_here
from brickyard.domain.errors import ResourceDoesNotExist
from brickyard.domain.periodic import Periodic
from brickyard.domain.statements import may_change
from brickyard.domain.warehouses import Warehouses
from brickyard.features.statements.linked import LinkedResults
from brickyard.features.statements.links import ResultLinks, link_url
from brickyard.features.statements.model import (
    Disposition,
    ExecuteStatement,
    ExecutionState,
    ExternalLink,
    Format,
    Manifest,
    OnWaitTimeout,
    Query,
    ResultData,
    ServiceError,
    SignedChunk,
    SqlRunner,
    StatementAnswer,
    StatementChunk,
    StatementId,
    StatementRow,
    StatementStatus,
)
from brickyard.features.statements.repeats import CallRows, StatementCalls, call_key
from brickyard.features.statements.results import OpenChunk, ResultFiles
from brickyard.features.statements.rows import StatementRows
from brickyard.features.statements.rules import KEPT_MS, LINK_MS, LOST, LOST_MS, after, as_csv, check, chunk_of
from brickyard.features.statements.running import RunningStatements
from brickyard.features.statements.tasks import TaskStatementService
from brickyard.store.store import Store
from brickyard.store.tx import Tx

SWEEP_S = 60.0
_SWEPT = 100
_SHOWN = 64
_TYPES = {
    Format.JSON_ARRAY: "application/json",
    Format.ARROW_STREAM: "application/vnd.apache.arrow.stream",
    Format.CSV: "text/csv",
}
_OCTETS = "application/octet-stream"  # of a SQL client: an Arrow stream, compressed if it asked for that


class StatementService(Periodic):
    """One per server; as a loop it forgets results whose time is over. Methods raise ApiError. A statement is its
    user's alone."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        authorizer: Authorizer,
        warehouses: Warehouses,
        runner: SqlRunner,
        files: ResultFiles,
        links: ResultLinks,
    ) -> None:
        super().__init__(every_s=SWEEP_S, later=True, database=store)
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._warehouses = warehouses
        self._runner = runner
        self._files = files
        self._links = links
        self._calls = StatementCalls(store, clock)
        self.running = RunningStatements(store=store, clock=clock, files=files, runner=runner)
        self.linked = LinkedResults(store=store, clock=clock, files=files, links=links)
        self.tasks = TaskStatementService(store=store, clock=clock, running=self.running, files=files, runner=runner)

    async def execute(self, caller: Caller, request: ExecuteStatement) -> StatementAnswer:
        """Begins a statement, and waits for it as long as the request says."""
        wait_s = check(request)
        compute = await self._warehouses.compute_of(caller, request.warehouse_id)
        if compute is None:
            raise ResourceDoesNotExist(f"SQL warehouse {request.warehouse_id[:_SHOWN]} does not exist.")
        now = self._clock.now_ms()
        row = StatementRow(
            statement_id=str(uuid.uuid4()),
            user_name=caller.user_name,
            user_id=caller.user_id,
            warehouse_id=request.warehouse_id,
            created_ms=now,
            beat_ms=now,
            expires_ms=now + KEPT_MS,
            disposition=request.disposition,
            format=request.format,
        )
        query = Query(
            row.statement_id,
            request.statement,
            compute.warehouse_id,
            compute.cluster_id,
            request.catalog or "",
            request.schema or "",
            request.parameters or (),
            request.row_limit,
            request.source,
            request.user_agent[:200],
        )
        delivery = delivery_here.get() if may_change(request.statement) else None
        statement_id = row.statement_id
        if (known := await self._admit(caller, request, row, delivery)) is None:
            self.running.begin(caller, row, query, byte_limit=request.byte_limit)
        else:
            statement_id = known
        await self._waited(statement_id, wait_s, delivery)
        found = await self._known(statement_id)
        gone = delivery is not None and delivery.gone.is_set()  # the wait ended early, and the client may ask again
        if wait_s and not found.state.final and not gone and request.on_wait_timeout is OnWaitTimeout.CANCEL:
            await self._cancel(statement_id)
            found = await self._known(statement_id)
        return await self._answer(found, request.base_url)

    async def get(self, caller: Caller, request: StatementId) -> StatementAnswer:
        """What has become of a statement, with the first chunk of its result."""
        return await self._answer(await self._find(caller, request.statement_id), request.base_url)

    async def cancel(self, caller: Caller, request: StatementId) -> None:
        """Ends a statement; one that has ended stays as it is."""
        await self._find(caller, request.statement_id)
        await self._cancel(request.statement_id)

    async def chunk(self, caller: Caller, request: StatementChunk) -> ResultData:
        """One chunk of a result."""
        found = await self._find(caller, request.statement_id)
        if found.manifest is None:
            raise ResourceDoesNotExist(f"Statement {found.statement_id} has no result: it is {found.state.value}.")
        chunk_of(found.manifest, request.chunk_index)
        return await self._data(found, found.manifest, request.chunk_index, request.base_url)

    async def external(self, request: SignedChunk) -> tuple[str, bytes | OpenChunk]:
        """The content type and the content of a chunk, for anybody who has its link. Who calls closes an OpenChunk."""
        self._links.check(request.signature, request.statement_id, request.chunk_index)
        found = await self._store.read(lambda tx: tx.rows(StatementRows).get(request.statement_id))
        if found is None:
            raise _missing(request.statement_id)
        try:
            if found.format is Format.ARROW_STREAM:
                opened = await asyncio.to_thread(self._files.open, found.statement_id, request.chunk_index)
                if found.manifest is not None:
                    return _TYPES[found.format], opened
                opened.on_end = functools.partial(self.linked.read, found.statement_id, request.chunk_index)
                return _OCTETS, opened
            manifest = found.manifest
            if manifest is None:
                raise _missing(request.statement_id)
            return _TYPES[found.format], await asyncio.to_thread(self._written, found, manifest, request.chunk_index)
        except FileNotFoundError:
            raise _missing(request.statement_id) from None

    async def run_once(self) -> None:
        """Forgets what is kept for too long."""
        now = self._clock.now_ms()
        await self._store.write(lambda tx: tx.rows(CallRows).forget(now), background=True)
        for statement_id in await self._store.read(lambda tx: tx.rows(StatementRows).expired(now, limit=_SWEPT), background=True):
            await asyncio.to_thread(self._files.remove, statement_id)
            await self._store.write(functools.partial(_forget, statement_id=statement_id), background=True)

    # --- inside ---

    async def _admit(self, caller: Caller, request: ExecuteStatement, row: StatementRow, delivery: Delivery | None) -> str | None:
        """Inserts the statement. Returns the id of another one if this call repeats the one that has begun it."""
        if delivery is None:
            await self._store.write(lambda tx: tx.rows(StatementRows).insert(row))
            return None
        key = call_key(caller, request)
        known = await self._calls.admit(key, row)
        delivery.on_loss(lambda: self._calls.lost(key, known or row.statement_id))
        delivery.on_success(lambda: self._calls.answered(key))
        return known

    async def _waited(self, statement_id: str, seconds: float, delivery: Delivery | None) -> None:
        """Wait for a statement, as long as its client is there."""
        waits = [asyncio.ensure_future(self.running.wait(statement_id, seconds))]
        if delivery is not None:
            waits.append(asyncio.ensure_future(_gone(delivery)))
        _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()

    async def _cancel(self, statement_id: str) -> None:
        await self.running.finish(statement_id, ExecutionState.CANCELED)
        self.running.stop(statement_id)

    async def _known(self, statement_id: str) -> StatementRow:
        found = await self._store.read(lambda tx: tx.rows(StatementRows).get(statement_id))
        if found is None:
            raise _missing(statement_id)
        return found

    async def _find(self, caller: Caller, statement_id: str) -> StatementRow:
        """The caller's statement. Others' do not exist for them. One whose server is silent has failed."""

        def work(tx: Tx) -> StatementRow | None:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="see the statements of the")
            return tx.rows(StatementRows).get(statement_id)

        found = await self._store.read(work)
        now = self._clock.now_ms()
        if found is None or found.user_id != caller.user_id or found.expires_ms <= now:
            raise _missing(statement_id)
        if found.state.final or now - found.beat_ms < LOST_MS:
            return found
        lost = ServiceError(error_code="ABORTED", message=LOST)
        return await self.running.finish(statement_id, ExecutionState.FAILED, error=lost) or await self._find(
            caller, statement_id
        )

    async def _answer(self, row: StatementRow, base_url: str) -> StatementAnswer:
        result = None
        if row.manifest is not None and row.state is ExecutionState.SUCCEEDED:
            result = ResultData(data_array=[] if row.disposition is Disposition.INLINE else None)
            if row.manifest.total_chunk_count:
                result = await self._data(row, row.manifest, 0, base_url)
        status = StatementStatus(state=row.state, error=row.error, sql_state=row.sql_state)
        return StatementAnswer(statement_id=row.statement_id, status=status, manifest=row.manifest, result=result)

    async def _data(self, row: StatementRow, manifest: Manifest, index: int, base_url: str) -> ResultData:
        info, following = chunk_of(manifest, index), after(manifest, index)
        path = f"/api/2.0/sql/statements/{row.statement_id}"
        internal = None if following is None else f"{path}/result/chunks/{following}"
        if row.disposition is Disposition.EXTERNAL_LINKS:
            until = min(self._clock.now_ms() + LINK_MS, row.expires_ms)
            signature = self._links.sign(row.statement_id, index, until_ms=until)
            link = ExternalLink(
                external_link=link_url(base_url, row.statement_id, index, signature),
                expiration=f"{datetime.fromtimestamp(until / 1000, UTC):%Y-%m-%dT%H:%M:%S.000Z}",
                chunk_index=index,
                row_offset=info.row_offset,
                row_count=info.row_count,
                byte_count=info.byte_count,
                next_chunk_index=following,
                next_chunk_internal_link=internal,
            )
            return ResultData(external_links=[link])
        stream = await asyncio.to_thread(self._files.read, row.statement_id, index)
        return ResultData(
            chunk_index=index,
            row_offset=info.row_offset,
            row_count=info.row_count,
            byte_count=info.byte_count,
            data_array=await asyncio.to_thread(self._runner.rows, stream),
            next_chunk_index=following,
            next_chunk_internal_link=internal,
        )

    def _written(self, row: StatementRow, manifest: Manifest, index: int) -> bytes:
        """A chunk in the format that its statement asked for. Blocks."""
        rows = self._runner.rows(self._files.read(row.statement_id, index))
        if row.format is Format.JSON_ARRAY:
            return msgspec.json.encode(rows)
        return as_csv(rows, [each.name for each in manifest.schema.columns] if index == 0 else ())


async def _gone(delivery: Delivery) -> None:
    await delivery.gone.wait()


def _forget(tx: Tx, *, statement_id: str) -> None:
    tx.rows(StatementRows).delete(statement_id)


def _missing(statement_id: str) -> ResourceDoesNotExist:
    return ResourceDoesNotExist(f"The statement {statement_id[:_SHOWN]} was not found.")
