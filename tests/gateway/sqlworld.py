"""SQL's way into a cluster before a Spark Connect that is a fake: what SQL clients see, without Spark."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import socket
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow
import pyarrow.ipc
import uvicorn
from databricks.sql.thrift_api.TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from brickyard.api.edge.serving import serving
from brickyard.domain.statements import Statement, StatementOutcome
from brickyard.domain.tracing import Tracing
from brickyard.domain.warehouses import Compute
from brickyard.gateway.connect import ConnectGateway
from brickyard.gateway.sql.protocol import MESSAGES, message
from brickyard.gateway.sqlentrance import SqlEntrance
from brickyard.testing.builders import cluster, up
from tests.gateway.driver import FakeDriver
from tests.gateway.world import CLUSTER_ID, World
from tests.gateway.world import world as connect_world

PATH = f"/sql/protocolv1/o/0/{CLUSTER_ID}"


def arrow(table: pyarrow.Table) -> bytes:
    """A table as a stream."""
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


class FakeSpark(FakeDriver):
    """Understands `rows N SIZE` (N rows in parts of SIZE), `tables` (of TABLES by name), `fail`, `hang` (until it is
    interrupted), what begins with `wait` or names it (until `hold` is set), `USE SCHEMA` and the question for the current schema.
    Any other statement succeeds with no rows."""

    def __init__(self) -> None:
        super().__init__("c")
        self.ran: list[str] = []
        self.plans: list[Any] = []
        self.tables: dict[str, pyarrow.Table] = {}
        self.sessions: dict[tuple[str, str], dict[str, str]] = {}
        self.incarnations: dict[tuple[str, str], str] = {}
        self.missing: set[str] = set()  # schemas that do not exist
        self.schemas: dict[tuple[str, str], str] = {}  # in which sessions are
        self.calls: list[str] = []  # the methods
        self.operations: dict[tuple[str, ...], asyncio.Task[list[Any]]] = {}
        self.attached: dict[tuple[str, ...], asyncio.Event] = {}  # set: another call reads the operation's result now
        self.interrupted: dict[str, asyncio.Event] = {}
        self.released: list[str] = []
        self.hold = asyncio.Event()  # `wait` ends with it
        self.releases = asyncio.Event()  # a release is answered with it
        self.releases.set()

    async def serve(self, method: str, context: Any) -> None:
        name = method.rpartition("/")[2]
        self.calls.append(name)
        request = MESSAGES[REQUESTS[name]].FromString(await context.read())
        key = (request.user_context.user_id, request.session_id)
        if name != "ReleaseSession":
            incarnation = self.incarnations.setdefault(key, str(uuid.uuid4()))
            if request.client_observed_server_side_session_id not in ("", incarnation):
                await context.abort(grpc.StatusCode.INTERNAL, "[INVALID_HANDLE.SESSION_CHANGED] The handle is invalid.")
        match name:
            case "Config":
                await context.write(self._configured(request, key).SerializeToString())
            case "ExecutePlan":
                await self._execute(request, context)
            case "ReattachExecute":
                if (*key, request.operation_id) not in self.operations:
                    await context.abort(grpc.StatusCode.INTERNAL, "[INVALID_HANDLE.OPERATION_NOT_FOUND] The handle is invalid.")
                else:
                    await self._send((*key, request.operation_id), context)
            case "Interrupt":
                event = self.interrupted.setdefault(request.operation_id, asyncio.Event())
                event.set()
                await context.write(message("InterruptResponse", interrupted_ids=[request.operation_id]).SerializeToString())
            case "ReleaseExecute":
                self.operations.pop((*key, request.operation_id), None)
                self.released.append(request.operation_id)
                await self.releases.wait()
                await context.write(b"")
            case "ReleaseSession":
                self.incarnations.pop(key, None)
                self.sessions.pop(key, None)
                await context.write(b"")

    def _configured(self, request: Any, key: tuple[str, str]) -> Any:
        settings, operation = self.sessions.setdefault(key, {}), request.operation
        settings.update({pair.key: pair.value for pair in operation.set.pairs})
        for name in operation.unset.keys:
            settings.pop(name, None)
        wanted = [name for name in operation.get_option.keys if name in settings]
        pairs = [message("KeyValue", key=name, value=settings[name]) for name in wanted]
        return message("ConfigResponse", pairs=pairs, server_side_session_id=self.incarnations[key])

    async def _execute(self, request: Any, context: Any) -> None:
        root = request.plan.root
        text = root.sql.query or root.limit.input.sql.query
        self.ran.append(text)
        self.plans.append(root)
        if text == "fail":
            info = message("ErrorInfo", metadata={"errorClass": "DIVIDE_BY_ZERO", "sqlState": "22012"})
            detail = message("Any", type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString())
            trailing = (("grpc-status-details-bin", message("Status", details=[detail]).SerializeToString()),)
            stack = "[DIVIDE_BY_ZERO] Division by zero.\n\tat org.apache.spark.sql.X.y(X.scala:1)\n\tat java.base/Thread.run()"
            await context.abort(grpc.StatusCode.INTERNAL, stack, trailing)
        if text == "hang":
            event = self.interrupted.setdefault(request.operation_id, asyncio.Event())
            await event.wait()
            await context.abort(grpc.StatusCode.INTERNAL, "[OPERATION_CANCELED] canceled SQLSTATE: HY008")
        session = (request.user_context.user_id, request.session_id)
        if (use := re.fullmatch(r"USE SCHEMA `(.+)`", text)) is not None:
            if use[1] in self.missing:
                await context.abort(grpc.StatusCode.INTERNAL, f"[SCHEMA_NOT_FOUND] {use[1]} SQLSTATE: 42704")
            self.schemas[session] = use[1]
        if text == "SELECT current_catalog(), current_schema()":
            self.tables[text] = pyarrow.table({"c": ["main"], "s": [self.schemas.get(session, "default")]})
        operation = (*session, request.operation_id)
        self.operations[operation] = asyncio.create_task(self._responses(text))
        await self._send(operation, context)

    async def _responses(self, text: str) -> list[Any]:
        if text.startswith("wait") or "`wait`" in text:
            await self.hold.wait()
        responses = [
            message(
                "ExecutePlanResponse",
                response_id=str(at),
                arrow_batch=message("ArrowBatch", row_count=table.num_rows, data=arrow(table)),
            )
            for at, table in enumerate(self._result(text))
        ]
        responses.append(message("ExecutePlanResponse", response_id="end", result_complete=message("ResultComplete")))
        return responses

    def _result(self, text: str) -> list[pyarrow.Table]:
        if (match := re.fullmatch(r"rows (\d+) (\d+)", text)) is not None:
            ids = pyarrow.table({"id": pyarrow.array(range(int(match[1])), pyarrow.int64())})
            return [ids.slice(at, int(match[2])) for at in range(0, ids.num_rows, int(match[2]))]
        return [self.tables.get(text, pyarrow.table({}))]

    async def _send(self, operation: tuple[str, ...], context: Any) -> None:
        """One call reads an operation's result: the last one that has asked for it."""
        work, detached = self.operations[operation], asyncio.Event()
        self.attached.get(operation, detached).set()
        detached.clear()
        self.attached[operation] = detached
        waits = asyncio.ensure_future(detached.wait())
        await asyncio.wait({work, waits}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        if not work.done():
            await context.abort(grpc.StatusCode.INTERNAL, "[INVALID_CURSOR.DISCONNECTED] The cursor was disconnected.")
        for response in work.result():
            await context.write(response.SerializeToString())


REQUESTS = {
    "Config": "ConfigRequest",
    "ExecutePlan": "ExecutePlanRequest",
    "ReattachExecute": "ReattachExecuteRequest",
    "Interrupt": "InterruptRequest",
    "ReleaseExecute": "ReleaseExecuteRequest",
    "ReleaseSession": "ReleaseSessionRequest",
}


class Observer:
    """Keeps what it learns."""

    def __init__(self) -> None:
        self.begun: list[Statement] = []
        self.over: list[tuple[Statement, StatementOutcome]] = []
        self.passed: list[tuple[str, str]] = []  # what became of a statement between servers, and its id

    def began(self, statement: Statement) -> None:
        self.begun.append(statement)

    def went_on(self, statement: Statement) -> None:
        self.passed.append(("went on", statement.statement_id))

    def left(self, statement: Statement) -> None:
        self.passed.append(("left", statement.statement_id))

    def ended(self, statement: Statement, outcome: StatementOutcome) -> None:
        self.over.append((statement, outcome))


class OneWarehouse:
    """A workspace whose warehouse `w1` is CLUSTER_ID."""

    async def cluster_of(self, caller: object, warehouse_id: str) -> str | None:
        return CLUSTER_ID if warehouse_id == "w1" else None

    async def compute_of(self, caller: object, warehouse_id: str) -> Compute | None:
        return Compute(CLUSTER_ID, "w1") if warehouse_id == "w1" else None


class SqlWorld:
    """The way in, twice: `door` and `other` are those of two servers."""

    def __init__(self, world: World, spark: FakeSpark) -> None:
        self.world, self.spark, self.observer = world, spark, Observer()
        self.entrance, self.other = (self._entrance(world.gateway) for _ in range(2))
        self.port = 0

    def _entrance(self, gateway: ConnectGateway) -> SqlEntrance:
        tracing = self.world.tracing
        made = SqlEntrance(self.world.authenticator, warehouses=OneWarehouse(), observer=self.observer, tracing=tracing)
        made.open(gateway)
        return made

    async def call(
        self,
        token: str,
        name: str,
        request: Any,
        *,
        path: str = PATH,
        entrance: SqlEntrance | None = None,
        gone: asyncio.Event | None = None,
    ) -> Any:
        """A call's answer. Its client disconnects with `gone`, at the latest when its answer begins. Raises Refused."""
        buffer = TMemoryBuffer()
        client = TCLIService.Client(TBinaryProtocol(buffer))
        getattr(client, f"send_{name}")(request)
        received = [{"type": "http.request", "body": buffer.getvalue()}]
        sent: list[Any] = []

        async def receive() -> Any:
            if received:
                return received.pop()
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(given: Any) -> None:
            sent.append(given)
            if gone is not None:
                gone.set()

        headers = [(b"authorization", f"Bearer {token}".encode()), (b"user-agent", b"Test/1.0")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": ("127.0.0.1", 1)}
        await (entrance or self.entrance)(scope, receive, send)
        if gone is not None:
            return None
        if sent[0]["status"] != 200:
            raise Refused(sent[0]["status"], dict(sent[0]["headers"]))
        answers = TCLIService.Client(TBinaryProtocol(TMemoryBuffer(sent[1]["body"])))
        return getattr(answers, f"recv_{name}")()

    async def session(self, token: str, **fields: Any) -> Any:
        """The handle of a new session."""
        request = ttypes.TOpenSessionReq(
            client_protocol_i64=ttypes.TProtocolVersion.SPARK_CLI_SERVICE_PROTOCOL_V7, configuration={}, **fields
        )
        return (await self.call(token, "OpenSession", request)).sessionHandle

    async def begin(self, token: str, session: Any, statement: str, **fields: Any) -> Any:
        """The answer to a statement of a client that reads results as Databricks' do."""
        entrance, gone = fields.pop("entrance", None), fields.pop("gone", None)
        request = ttypes.TExecuteStatementReq(session, statement, runAsync=True, **fields)
        return await self.call(token, "ExecuteStatement", request, entrance=entrance, gone=gone)


class Refused(Exception):
    """An HTTP status and its headers."""

    def __init__(self, status: int, headers: dict[bytes, bytes]) -> None:
        super().__init__(status, headers)
        self.status, self.headers = status, headers


@contextlib.asynccontextmanager
async def sql_world(tmp_path: Path, *, patience_s: float = 0.0, tracing: Tracing | None = None) -> AsyncIterator[SqlWorld]:
    """Before a running cluster."""
    async with connect_world(tmp_path, patience_s=patience_s, tracing=tracing) as world:
        spark = FakeSpark()
        await spark.start()
        world.agent.port = spark.port
        await world.set(up(cluster()))
        made = SqlWorld(world, spark)
        try:
            yield made
        finally:
            await made.entrance.close()
            await made.other.close()
            await spark.stop()


@contextlib.asynccontextmanager
async def served(world: SqlWorld) -> AsyncIterator[str]:
    """Its URL, as a web server."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(serving(world.entrance))
        serve = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serve
