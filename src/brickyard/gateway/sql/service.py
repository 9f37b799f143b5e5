"""Answers the calls of Databricks' SQL protocol for one caller on one cluster."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import lz4.frame
from databricks.sql.thrift_api.TCLIService import ttypes

from brickyard.gateway.sql import metadata
from brickyard.gateway.sql.columns import Column, row_set, rows_of, table_schema
from brickyard.gateway.sql.driver import Chunk, Driver, SqlFailed, Target
from brickyard.gateway.sql.ipc import cut
from brickyard.gateway.sql.metadata import Metadata, Table, quoted
from brickyard.gateway.sql.operations import Operation, Operations, Part, Phase
from brickyard.gateway.sql.parameters import BadParameter, bound
from brickyard.gateway.sql.settings import UnknownSetting, session_settings

DIRECT_S = 5.0  # how long a call that may run on waits for its result
POLL_S = 1.0  # how long a question for the state waits for another one
WAIT_S = 24 * 3600.0  # how long a call that must not run on waits
MAX_ROWS = 100_000  # of a result that is made here, in one answer
VERSION = ttypes.TProtocolVersion.SPARK_CLI_SERVICE_PROTOCOL_V7
_SPARK_VERSIONS = 0xA500  # protocol versions of Spark's clients begin above
_STATE = ttypes.TOperationState
_STATES = {
    Phase.RUNNING: _STATE.RUNNING_STATE,
    Phase.READY: _STATE.FINISHED_STATE,
    Phase.FAILED: _STATE.ERROR_STATE,
    Phase.CANCELED: _STATE.CANCELED_STATE,
}
_ARROW, _COLUMNS = ttypes.TSparkRowSetType.ARROW_BASED_SET, ttypes.TSparkRowSetType.COLUMN_BASED_SET
_TYPE = ttypes.TTypeId
_COMPLEX = {_TYPE.ARRAY_TYPE, _TYPE.MAP_TYPE, _TYPE.STRUCT_TYPE}
_INTERVALS = {_TYPE.INTERVAL_YEAR_MONTH_TYPE, _TYPE.INTERVAL_DAY_TIME_TYPE}
UNKNOWN_OPERATION = "This statement is not open on this server: it was closed, or its server has ended. Run it again."


class Client(NamedTuple):
    """Who calls, which cluster, and with what credentials."""

    user: str
    cluster_id: str
    authorization: str
    address: str

    def target(self, session: Any) -> Target:
        """The session of a handle. Its id is nothing to guess: Spark tells sessions apart by user and id."""
        return Target(self.cluster_id, _id(session.sessionId), self.user, self.authorization, self.address)


class _Form(NamedTuple):
    """How a client reads results."""

    arrow: bool
    lz4: bool
    complex: bool
    decimals: bool
    intervals: bool

    def takes(self, columns: list[Column]) -> bool:
        """Whether it reads these columns as Arrow has them."""
        kinds = {column.type for column in columns}
        return (
            self.arrow
            and (self.complex or not kinds & _COMPLEX)
            and (self.decimals or _TYPE.DECIMAL_TYPE not in kinds)
            and (self.intervals or not kinds & _INTERVALS)
        )


_PLAIN = _Form(arrow=False, lz4=False, complex=False, decimals=False, intervals=False)


class _Open(NamedTuple):
    """A statement, or a table that is made here, and how its client reads it."""

    form: _Form
    operation: Operation | None = None
    table: Table | None = None


class SqlService:
    """One per server."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._metadata = Metadata(driver)
        self.operations = Operations(driver)
        self._forms: dict[str, _Form] = {}
        self._tables: dict[tuple[str, str], Table] = {}

    def handler(self, name: str) -> Callable[[Client, Any], Awaitable[Any]] | None:
        """What answers a call; None if it is not served."""
        return {
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
        }.get(name)

    async def open_session(self, client: Client, request: Any) -> Any:
        """Raises SqlFailed: the cluster does not run, or refuses a setting."""
        target = Target(client.cluster_id, str(uuid.uuid4()), client.user, client.authorization, client.address)
        try:
            settings = session_settings(request.configuration or {})
        except UnknownSetting as error:
            return ttypes.TOpenSessionResp(status=_error(str(error), "42000"), serverProtocolVersion=VERSION)
        namespace = request.initialNamespace
        try:
            await self._driver.configure(target, settings.spark)
            if namespace is not None and namespace.catalogName:
                await self._driver.run(target, f"USE CATALOG {quoted(namespace.catalogName)}")
            if schema := (namespace.schemaName if namespace is not None else "") or settings.schema:
                await self._driver.run(target, f"USE SCHEMA {quoted(schema)}")
        except SqlFailed as error:
            if error.of_the_call:
                raise
            return ttypes.TOpenSessionResp(status=_error(error.text, error.sql_state), serverProtocolVersion=VERSION)
        wanted = request.client_protocol_i64 or request.client_protocol or 0
        return ttypes.TOpenSessionResp(
            status=_success(),
            serverProtocolVersion=min(wanted, VERSION) if wanted > _SPARK_VERSIONS else max(0, min(wanted, 9)),
            sessionHandle=ttypes.TSessionHandle(_identifier(target.session_id)),
            configuration={},
            initialNamespace=namespace,
            canUseMultipleCatalogs=True,
        )

    async def close_session(self, client: Client, request: Any) -> Any:
        target = client.target(request.sessionHandle)
        await self.operations.close_session(target)
        await self._driver.end_session(target)
        return ttypes.TCloseSessionResp(status=_success())

    async def get_info(self, _client: Client, request: Any) -> Any:
        kind = ttypes.TGetInfoType
        texts = {
            kind.CLI_SERVER_NAME: "Spark SQL",
            kind.CLI_DBMS_NAME: "Spark SQL",
            kind.CLI_DBMS_VER: "4.0.0",
            kind.CLI_IDENTIFIER_QUOTE_CHAR: "`",
            kind.CLI_SEARCH_PATTERN_ESCAPE: "\\",
        }
        if request.infoType not in texts:
            return ttypes.TGetInfoResp(status=_error("This information is not available.", "HY096"), infoValue=_text(""))
        return ttypes.TGetInfoResp(status=_success(), infoValue=_text(texts[request.infoType]))

    async def execute(self, client: Client, request: Any) -> Any:
        """Begins a statement. Waits for it if the client wants that, and for a moment in any case."""
        target = client.target(request.sessionHandle)
        try:
            given = bound(request.parameters or [])
        except BadParameter as error:
            return ttypes.TExecuteStatementResp(status=_error(str(error), "42000"))
        operation = self.operations.made(str(uuid.uuid4()), target)
        native = request.useArrowNativeTypes
        self._forms[operation.id] = _Form(
            arrow=bool(request.canReadArrowResult),
            lz4=bool(request.canDecompressLZ4Result),
            complex=native is None or bool(native.complexTypesAsArrow),
            decimals=native is None or bool(native.decimalAsArrow),
            intervals=native is not None and bool(native.intervalTypesAsArrow),
        )
        result = self._driver.execute(target, operation.id, request.statement or "", given.named, given.positional)
        operation.begin(result, timeout_s=request.queryTimeout or None)
        handle = ttypes.TOperationHandle(_identifier(operation.id), ttypes.TOperationType.EXECUTE_STATEMENT, True)
        await operation.wait(DIRECT_S if request.runAsync or request.getDirectResults else WAIT_S)
        if operation.error is not None and not request.runAsync and request.getDirectResults is None:
            await self._close(operation)
            return ttypes.TExecuteStatementResp(status=_error(operation.error.text, operation.error.sql_state))
        direct = await self._direct(operation) if request.getDirectResults is not None else None
        return ttypes.TExecuteStatementResp(status=_success(), operationHandle=handle, directResults=direct)

    async def _direct(self, operation: Operation) -> Any:
        """What clients would ask for next."""
        status = _status(operation)
        if operation.phase is not Phase.READY:
            return ttypes.TSparkDirectResults(operationStatus=status)
        described = self._described(operation)
        try:
            part = await operation.fetch(MAX_ROWS)
        except SqlFailed:
            return ttypes.TSparkDirectResults(operationStatus=_status(operation))
        results = ttypes.TFetchResultsResp(status=_success(), hasMoreRows=part.more, results=self._rows(operation, part))
        closed = None
        if not part.more:
            await self._close(operation)
            closed = ttypes.TCloseOperationResp(status=_success())
        return ttypes.TSparkDirectResults(
            operationStatus=status, resultSetMetadata=described, resultSet=results, closeOperation=closed
        )

    def _described(self, operation: Operation) -> Any:
        form = self._forms[operation.id]
        schema = table_schema(operation.columns)
        if not form.takes(operation.columns):
            return ttypes.TGetResultSetMetadataResp(status=_success(), schema=schema, resultFormat=_COLUMNS, lz4Compressed=False)
        return ttypes.TGetResultSetMetadataResp(
            status=_success(), schema=schema, resultFormat=_ARROW, lz4Compressed=form.lz4, arrowSchema=operation.schema
        )

    def _rows(self, operation: Operation, part: Part) -> Any:
        form = self._forms[operation.id]
        if form.takes(operation.columns):
            batches = [_batch(chunk, compress=form.lz4) for chunk in part.chunks if chunk.rows]
            return ttypes.TRowSet(startRowOffset=part.start, rows=[], arrowBatches=batches)
        values = [rows_of(chunk.stream) for chunk in part.chunks]
        joined = [[value for each in values for value in each[at]] for at in range(len(operation.columns))]
        return row_set(operation.columns, joined, start=part.start)

    async def status(self, client: Client, request: Any) -> Any:
        if self._table(client, request.operationHandle) is not None:
            return ttypes.TGetOperationStatusResp(status=_success(), operationState=_STATE.FINISHED_STATE, hasResultSet=True)
        operation = self._find(client, request.operationHandle)
        if operation is None:
            return ttypes.TGetOperationStatusResp(status=_error(UNKNOWN_OPERATION, "HY000"))
        await operation.wait(POLL_S)
        return _status(operation)

    async def cancel(self, client: Client, request: Any) -> Any:
        if (operation := self._find(client, request.operationHandle)) is not None:
            await operation.cancel()
        return ttypes.TCancelOperationResp(status=_success())

    async def close_operation(self, client: Client, request: Any) -> Any:
        self._tables.pop((client.user, _id(request.operationHandle.operationId)), None)
        if (operation := self._find(client, request.operationHandle)) is not None:
            await self._close(operation)
        return ttypes.TCloseOperationResp(status=_success())

    async def _close(self, operation: Operation) -> None:
        self._forms.pop(operation.id, None)
        await operation.close()

    async def result_metadata(self, client: Client, request: Any) -> Any:
        if (table := self._table(client, request.operationHandle)) is not None:
            return _table_described(table)
        operation = self._find(client, request.operationHandle)
        if operation is None:
            return ttypes.TGetResultSetMetadataResp(status=_error(UNKNOWN_OPERATION, "HY000"))
        await operation.wait(WAIT_S)
        if operation.phase is not Phase.READY:
            return ttypes.TGetResultSetMetadataResp(status=_failure(operation))
        return self._described(operation)

    async def fetch(self, client: Client, request: Any) -> Any:
        if (table := self._table(client, request.operationHandle)) is not None:
            self._tables.pop((client.user, _id(request.operationHandle.operationId)))
            described = _table_described(table) if request.includeResultSetMetadata else None
            return ttypes.TFetchResultsResp(_success(), False, row_set(table.columns, table.values()), described)
        operation = self._find(client, request.operationHandle)
        if operation is None:
            return ttypes.TFetchResultsResp(status=_error(UNKNOWN_OPERATION, "HY000"))
        await operation.wait(WAIT_S)
        if operation.phase is not Phase.READY:
            return ttypes.TFetchResultsResp(status=_failure(operation))
        try:
            part = await operation.fetch(request.maxRows or MAX_ROWS)
        except SqlFailed as error:
            return ttypes.TFetchResultsResp(status=_error(error.text, error.sql_state))
        described = self._described(operation) if request.includeResultSetMetadata else None
        return ttypes.TFetchResultsResp(_success(), part.more, self._rows(operation, part), described)

    def _find(self, client: Client, handle: Any) -> Operation | None:
        return self.operations.find(_id(handle.operationId), client.user, client.cluster_id)

    def _table(self, client: Client, handle: Any) -> Table | None:
        return self._tables.get((client.user, _id(handle.operationId)))

    def _get(self, read: Callable[[Target, Any], Awaitable[Table]]) -> Callable[[Client, Any], Awaitable[Any]]:
        """Answers a question whose answer is a table."""

        async def answer(client: Client, request: Any) -> Any:
            try:
                table = await read(client.target(request.sessionHandle), request)
            except SqlFailed as error:
                return ttypes.TGetTablesResp(status=_error(error.text, error.sql_state))
            operation_id = str(uuid.uuid4())
            handle = ttypes.TOperationHandle(_identifier(operation_id), ttypes.TOperationType.GET_TABLES, True)
            direct = None
            if request.getDirectResults is None:
                self._tables[client.user, operation_id] = table
            else:
                direct = ttypes.TSparkDirectResults(
                    operationStatus=ttypes.TGetOperationStatusResp(
                        status=_success(), operationState=_STATE.FINISHED_STATE, hasResultSet=True
                    ),
                    resultSetMetadata=_table_described(table),
                    resultSet=ttypes.TFetchResultsResp(_success(), False, row_set(table.columns, table.values())),
                    closeOperation=ttypes.TCloseOperationResp(status=_success()),
                )
            return ttypes.TGetTablesResp(status=_success(), operationHandle=handle, directResults=direct)

        return answer


async def _done(table: Table) -> Table:
    return table


def _batch(chunk: Chunk, *, compress: bool) -> Any:
    batches = cut(chunk.stream).batches
    return ttypes.TSparkArrowBatch(lz4.frame.compress(batches) if compress else bytes(batches), chunk.rows)


def _table_described(table: Table) -> Any:
    return ttypes.TGetResultSetMetadataResp(status=_success(), schema=table_schema(table.columns), resultFormat=_COLUMNS)


def _status(operation: Operation) -> Any:
    error = operation.error
    return ttypes.TGetOperationStatusResp(
        status=_success(),
        operationState=_STATES[operation.phase],
        hasResultSet=True,
        sqlState=error.sql_state if error else None,
        errorMessage=error.text if error else None,
        displayMessage=error.text.partition("\n")[0] if error else None,
    )


def _failure(operation: Operation) -> Any:
    if operation.error is not None:
        return _error(operation.error.text, operation.error.sql_state)
    return _error("The statement was canceled.", "HY008")


def _success() -> Any:
    return ttypes.TStatus(statusCode=ttypes.TStatusCode.SUCCESS_STATUS)


def _error(text: str, sql_state: str) -> Any:
    return ttypes.TStatus(
        statusCode=ttypes.TStatusCode.ERROR_STATUS,
        sqlState=sql_state,
        errorCode=0,
        errorMessage=text,
        displayMessage=text.partition("\n")[0],
    )


def _text(value: str) -> Any:
    return ttypes.TGetInfoValue(stringValue=value)


def _identifier(given: str) -> Any:
    return ttypes.THandleIdentifier(uuid.UUID(given).bytes, bytes(16))


def _id(identifier: Any) -> str:
    """The id in a handle. Raises ValueError if it is none."""
    return str(uuid.UUID(bytes=identifier.guid))
