"""Answers the calls of Databricks' SQL protocol for one caller on one cluster."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from databricks.sql.thrift_api.TCLIService import ttypes

from brickyard.domain.background import BackgroundTasks
from brickyard.domain.errors import ApiError
from brickyard.features.statements.linked import LinkedResults
from brickyard.gateway.sql import metadata
from brickyard.gateway.sql.answers import (
    description_of,
    failed,
    failure_of,
    invalid_handle,
    no_log,
    rows_behind,
    rows_in,
    status_of,
    success,
    table_description,
    table_status,
)
from brickyard.gateway.sql.awaited import AwaitedSchemas
from brickyard.gateway.sql.client import Client
from brickyard.gateway.sql.columns import row_set
from brickyard.gateway.sql.driver import Driver, Query, Target
from brickyard.gateway.sql.failures import INVALID_SETTING, SqlFailed
from brickyard.gateway.sql.handles import (
    Form,
    new_operation_id,
    operation_handle,
    operation_ids,
    session_handle,
    session_ids,
)
from brickyard.gateway.sql.linking import Linking
from brickyard.gateway.sql.metadata import Metadata, Table, quoted
from brickyard.gateway.sql.observing import StatementObserver
from brickyard.gateway.sql.operations import GONE_S, Operation, Operations, Phase
from brickyard.gateway.sql.parameters import BadParameter, bound
from brickyard.gateway.sql.repeats import Repeats
from brickyard.gateway.sql.sessions import Sessions
from brickyard.gateway.sql.settings import TIMESTAMP_AS_STRING, UnknownSetting, session_settings

DIRECT_S = 5.0  # how long a call that may run on waits for its result
POLL_S = 1.0  # how long a question for the state waits for another one
WAIT_S = 24 * 3600.0  # how long a call that must not run on waits
MAX_BYTES = 8 << 20  # of a result in one answer; a single part of Spark's is never cut
VERSION = ttypes.TProtocolVersion.SPARK_CLI_SERVICE_PROTOCOL_V8  # from here on, Databricks' JDBC driver binds parameters
MAX_TABLES = 200  # answers to questions for metadata that wait for their clients; the oldest is dropped
_HIVE_VERSION = ttypes.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V10
_SPARK_VERSIONS = 0xA500  # protocol versions of Databricks' clients begin above
_LOG = 1  # TFetchResultsReq.fetchType
_NEXT = (None, ttypes.TFetchOrientation.FETCH_NEXT, ttypes.TFetchOrientation.FETCH_FIRST)
CLOSED_STATEMENT = (
    "This statement is not open: it was closed, nobody asked for it in 15 minutes, or its server has ended. Run it again."
)
Handler = Callable[[Client, Any], Awaitable[Any]]


class SqlService:
    """One per server."""

    def __init__(self, driver: Driver, observer: StatementObserver | None = None, results: LinkedResults | None = None) -> None:
        """`results`: where large results wait for clients that download them; None: all results are in the answers."""
        self._driver = driver
        self._linking = Linking(results)
        self._metadata = Metadata(driver)
        self.operations = Operations(driver, observer)
        self._sessions = Sessions()
        self._repeats = Repeats(driver)
        self._tables: dict[tuple[str, str], Table] = {}
        self._abandoned = BackgroundTasks()
        self._awaited = AwaitedSchemas(driver, self._metadata)
        self._handlers: dict[str, Handler] = {
            "OpenSession": self.open_session,
            "CloseSession": self.close_session,
            "GetInfo": self.get_info,
            "ExecuteStatement": self.execute,
            "GetTypeInfo": self._get(lambda _target, _request: _done(metadata.type_info())),
            "GetTableTypes": self._get(lambda _target, _request: _done(metadata.table_types())),
            "GetCatalogs": self._get(lambda target, _request: self._metadata.catalogs(target)),
            "GetSchemas": self._get(lambda target, r: self._metadata.schemas(target, r.catalogName, r.schemaName)),
            "GetTables": self._get(
                lambda target, r: self._metadata.tables(target, r.catalogName, r.schemaName, r.tableName, r.tableTypes)
            ),
            "GetColumns": self._get(
                lambda target, r: self._metadata.columns(target, r.catalogName, r.schemaName, r.tableName, r.columnName)
            ),
            "GetFunctions": self._get(
                lambda target, r: self._metadata.functions(target, r.catalogName, r.schemaName, r.functionName)
            ),
            "GetPrimaryKeys": self._get(lambda _target, _request: _done(Table(metadata.PRIMARY_KEYS, []))),
            "GetCrossReference": self._get(lambda _target, _request: _done(Table(metadata.CROSS_REFERENCE, []))),
            "GetOperationStatus": self.status,
            "CancelOperation": self.cancel,
            "CloseOperation": self.close_operation,
            "GetResultSetMetadata": self.result_metadata,
            "FetchResults": self.fetch,
        }

    def handler(self, name: str) -> Handler | None:
        """What answers a call; None if it is not served."""
        return self._handlers.get(name)

    async def open_session(self, client: Client, request: Any) -> Any:
        """Raises SqlFailed if the cluster does not run, QuotaExceeded if there are too many sessions."""
        version = _version(request)
        try:
            settings = session_settings(request.configuration or {})
        except UnknownSetting as error:
            status = failed(SqlFailed(str(error), sql_state=INVALID_SETTING))
            return ttypes.TOpenSessionResp(status=status, serverProtocolVersion=version)
        target = client.target(str(uuid.uuid4()))
        self._sessions.open(client.principal, target)
        client.delivery.on_loss(lambda: self._abandoned.start(self._end(target)))  # nobody knows its handle
        namespace = request.initialNamespace
        try:
            incarnation = await self._driver.configure(target, settings.spark)
            if namespace is not None and namespace.catalogName:
                await self._driver.run(target, f"SET CATALOG {quoted(namespace.catalogName)}")
            await self._awaited.begin(target, (namespace.schemaName if namespace is not None else "") or settings.schema)
        except SqlFailed as error:
            self._sessions.close(target)
            if error.of_the_call:
                raise
            await self._driver.end_session(target)
            return ttypes.TOpenSessionResp(status=failed(error), serverProtocolVersion=version)
        except ApiError:
            self._sessions.close(target)
            raise
        return ttypes.TOpenSessionResp(
            status=success(),
            serverProtocolVersion=version,
            sessionHandle=session_handle(target.session_id, incarnation),
            configuration={},
            initialNamespace=namespace,
            canUseMultipleCatalogs=True,
        )

    async def close_session(self, client: Client, request: Any) -> Any:
        await self._end(client.target(*session_ids(request.sessionHandle)))
        return ttypes.TCloseSessionResp(status=success())  # with its cluster, the session is gone too

    async def _end(self, target: Target) -> None:
        """End a session and what runs in it."""
        self._awaited.forget(target)
        self._sessions.close(target)
        await self.operations.close_session(target)
        try:
            await self._driver.end_session(target)
        except SqlFailed as error:
            if not error.of_the_call:
                raise

    async def get_info(self, _client: Client, request: Any) -> Any:
        kind = ttypes.TGetInfoType
        texts = {
            kind.CLI_SERVER_NAME: "Spark SQL",
            kind.CLI_DBMS_NAME: "Spark SQL",
            kind.CLI_DBMS_VER: "4.0.0",
            kind.CLI_IDENTIFIER_QUOTE_CHAR: "`",
            kind.CLI_SEARCH_PATTERN_ESCAPE: "\\",
        }
        value = ttypes.TGetInfoValue(stringValue=texts.get(request.infoType, ""))
        if request.infoType not in texts:
            status = failed(SqlFailed("This information is not available.", sql_state="HY096"))
            return ttypes.TGetInfoResp(status=status, infoValue=value)
        return ttypes.TGetInfoResp(status=success(), infoValue=value)

    async def execute(self, client: Client, request: Any) -> Any:
        """Begins a statement. Waits for it if the client wants that, and for a moment in any case."""
        target = self._in_session(client, request.sessionHandle)
        try:
            operation = await self._begin(client, target, request)
        except SqlFailed as error:
            return ttypes.TExecuteStatementResp(status=failed(error))
        client.delivery.on_loss(lambda: self._repeats.undelivered(operation, request))
        client.delivery.on_success(lambda: self._repeats.over(target, request))
        await operation.wait(DIRECT_S if request.runAsync or request.getDirectResults else WAIT_S)
        if operation.error is not None and (operation.error.session_gone or not (request.runAsync or request.getDirectResults)):
            await operation.close()
            return ttypes.TExecuteStatementResp(status=failed(operation.error))
        direct = await self._direct(client, operation) if request.getDirectResults is not None else None
        return ttypes.TExecuteStatementResp(
            status=success(), operationHandle=operation_handle(operation.id, target.session_id), directResults=direct
        )

    async def _begin(self, client: Client, target: Target, request: Any) -> Operation:
        """The operation of a request: a new one, unless the request repeats one whose answer was lost. Raises SqlFailed."""
        try:
            given = bound(request.parameters or [])
            overlay = session_settings(
                {key: value for key, value in (request.confOverlay or {}).items() if key != TIMESTAMP_AS_STRING}
            )
        except (BadParameter, UnknownSetting) as error:
            raise SqlFailed(str(error), sql_state=INVALID_SETTING) from error
        if overlay.spark:
            raise SqlFailed(f"Set {next(iter(overlay.spark))} for the session: use SET.", sql_state=INVALID_SETTING)
        await self._awaited.use(target)
        statement = client.statement(new_operation_id(Form.of(request)), target.session_id, request.statement or "")
        if (known := await self._repeats.admit(target, request, statement.statement_id)) is not None:
            return known
        limit = request.resultRowLimit if (request.resultRowLimit or 0) > 0 else None
        query = Query(statement.text, given.named, tuple(given.positional), limit)
        try:
            return self.operations.begin(statement, query, target, client.principal, timeout_s=request.queryTimeout or None)
        except SqlFailed:
            await self._repeats.over(target, request)
            raise

    async def _direct(self, client: Client, operation: Operation) -> Any:
        """What clients would ask for next."""
        status = status_of(operation)
        if operation.phase is not Phase.READY:
            return ttypes.TSparkDirectResults(operationStatus=status)
        await self._linking.settle(client, operation)
        results = await self._fetched(client, operation, MAX_BYTES)
        closed = None
        if results.results is not None and not results.hasMoreRows and operation.linked is None:
            client.delivery.on_success(operation.close)
            closed = ttypes.TCloseOperationResp(status=success())
        return ttypes.TSparkDirectResults(
            operationStatus=status, resultSetMetadata=description_of(operation), resultSet=results, closeOperation=closed
        )

    async def _fetched(self, client: Client, operation: Operation, max_bytes: int, *, start: int | None = None) -> Any:
        """The TFetchResultsResp of the next part of a result. `start`: links from that row on, again."""
        try:
            if (linked := operation.linked) is not None:
                links = await linked.fetch(client.base_url, start=start)
                client.delivery.on_loss(lambda: linked.give_back(links))
                return ttypes.TFetchResultsResp(status=success(), hasMoreRows=links.more, results=rows_behind(links))
            part = await operation.fetch(max_bytes)
        except SqlFailed as error:
            return ttypes.TFetchResultsResp(status=failed(error))
        client.delivery.on_loss(lambda: operation.give_back(part))
        try:
            rows = rows_in(operation, part)
        except BaseException:
            operation.give_back(part)
            raise
        return ttypes.TFetchResultsResp(status=success(), hasMoreRows=part.more, results=rows)

    async def status(self, client: Client, request: Any) -> Any:
        if self._table(client, request.operationHandle) is not None:
            return table_status()
        operation = await self._find(client, request.operationHandle)
        if operation is None:
            return ttypes.TGetOperationStatusResp(status=_unknown(request.operationHandle))
        await operation.wait(POLL_S)
        return status_of(operation)

    async def cancel(self, client: Client, request: Any) -> Any:
        operation_id, session_id = operation_ids(request.operationHandle)
        if (operation := self.operations.find(operation_id, client.user, client.cluster_id)) is not None:
            await operation.cancel()
        elif session_id:  # another server's
            await self._driver.interrupt(client.target(session_id), operation_id)
        return ttypes.TCancelOperationResp(status=success())

    async def close_operation(self, client: Client, request: Any) -> Any:
        operation_id, session_id = operation_ids(request.operationHandle)
        if self._tables.pop((client.user, operation_id), None) is None:
            if (operation := self.operations.find(operation_id, client.user, client.cluster_id)) is not None:
                await operation.close()
            elif session_id:
                await self._driver.release(client.target(session_id), operation_id)
        return ttypes.TCloseOperationResp(status=success())

    async def result_metadata(self, client: Client, request: Any) -> Any:
        if (table := self._table(client, request.operationHandle)) is not None:
            return table_description(table)
        operation = await self._find(client, request.operationHandle)
        if operation is None:
            return ttypes.TGetResultSetMetadataResp(status=_unknown(request.operationHandle))
        await operation.wait(WAIT_S)
        if operation.phase is not Phase.READY:
            return ttypes.TGetResultSetMetadataResp(status=failure_of(operation))
        await self._linking.settle(client, operation)
        return description_of(operation)

    async def fetch(self, client: Client, request: Any) -> Any:
        if request.fetchType == _LOG:
            return no_log()
        if request.orientation not in _NEXT:
            status = failed(SqlFailed("Results are read forward: use FETCH_NEXT.", sql_state="HY106"))
            return ttypes.TFetchResultsResp(status=status)
        if (table := self._table(client, request.operationHandle)) is not None:
            return self._fetched_table(client, table, request)
        operation = await self._find(client, request.operationHandle)
        if operation is None:
            return ttypes.TFetchResultsResp(status=_unknown(request.operationHandle))
        await operation.wait(WAIT_S)
        if operation.phase is not Phase.READY:
            return ttypes.TFetchResultsResp(status=failure_of(operation))
        await self._linking.settle(client, operation)
        max_bytes = min(request.maxBytes or MAX_BYTES, MAX_BYTES)
        answer = await self._fetched(client, operation, max_bytes, start=request.startRowOffset)
        if request.includeResultSetMetadata:
            answer.resultSetMetadata = description_of(operation)
        return answer

    def _fetched_table(self, client: Client, table: Table, request: Any) -> Any:
        key = (client.user, operation_ids(request.operationHandle)[0])
        answer = ttypes.TFetchResultsResp(success(), False, row_set(table.columns, table.values()))
        self._tables[key] = table._replace(rows=[])  # whoever asks again gets no rows twice
        client.delivery.on_loss(lambda: self._tables.update({key: table}))
        if request.includeResultSetMetadata:
            answer.resultSetMetadata = table_description(table)
        return answer

    async def _find(self, client: Client, handle: Any) -> Operation | None:
        """The open operation of a handle. One of another server goes on here if nobody has fetched from it."""
        operation_id, session_id = operation_ids(handle)
        operation = self.operations.find(operation_id, client.user, client.cluster_id)
        if operation is None and session_id:
            operation = await self._adopted(client, operation_id, session_id)
        if operation is not None:
            operation.target.login.authorization = client.authorization
            found = operation
            client.delivery.on_loss(lambda: found.touch(GONE_S))
        return operation

    async def _adopted(self, client: Client, operation_id: str, session_id: str) -> Operation | None:
        statement = client.statement(operation_id, session_id, "")
        operation = self.operations.adopt(statement, client.target(session_id), client.principal)
        await operation.wait(POLL_S)
        if operation.error is not None and operation.error.operation_gone:
            await operation.close()
            return None
        return operation

    def _in_session(self, client: Client, handle: Any) -> Target:
        target = client.target(*session_ids(handle))
        self._sessions.touch(client.principal, target)
        return target

    def _table(self, client: Client, handle: Any) -> Table | None:
        return self._tables.get((client.user, operation_ids(handle)[0]))

    def _get(self, read: Callable[[Target, Any], Awaitable[Table]]) -> Handler:
        """Answers a question whose answer is a table."""

        async def answer(client: Client, request: Any) -> Any:
            target = self._in_session(client, request.sessionHandle)
            try:
                table = await read(target, request)
            except SqlFailed as error:
                return ttypes.TGetTablesResp(status=failed(error))
            operation_id = str(uuid.uuid4())
            handle = operation_handle(operation_id, "")
            handle.operationType = ttypes.TOperationType.GET_TABLES
            direct = None
            if request.getDirectResults is None:
                self._keep(client, operation_id, table)
            else:
                direct = ttypes.TSparkDirectResults(
                    operationStatus=table_status(),
                    resultSetMetadata=table_description(table),
                    resultSet=ttypes.TFetchResultsResp(success(), False, row_set(table.columns, table.values())),
                    closeOperation=ttypes.TCloseOperationResp(status=success()),
                )
            return ttypes.TGetTablesResp(status=success(), operationHandle=handle, directResults=direct)

        return answer

    def _keep(self, client: Client, operation_id: str, table: Table) -> None:
        while len(self._tables) >= MAX_TABLES:
            del self._tables[next(iter(self._tables))]
        self._tables[client.user, operation_id] = table


async def _done(table: Table) -> Table:
    return table


def _unknown(handle: Any) -> Any:
    return invalid_handle("Operation", operation_ids(handle)[0], CLOSED_STATEMENT)


def _version(request: Any) -> int:
    """The version of the protocol that a client and this server speak: Databricks' or Hive's."""
    wanted = request.client_protocol_i64 or request.client_protocol or 0
    if wanted > _SPARK_VERSIONS:
        return int(min(wanted, VERSION))
    return int(min(wanted, _HIVE_VERSION)) if wanted >= 0 else int(VERSION)
