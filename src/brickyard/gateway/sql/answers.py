"""Parts of answers of the SQL protocol: states, errors, descriptions and rows of results. Pure."""

from __future__ import annotations

from typing import Any

import lz4.frame
from databricks.sql.thrift_api.TCLIService import ttypes

from brickyard.gateway.sql.columns import row_set, table_schema
from brickyard.gateway.sql.driver import Chunk, Part
from brickyard.gateway.sql.failures import CANCELED, SqlFailed
from brickyard.gateway.sql.handles import form_of
from brickyard.gateway.sql.ipc import cut
from brickyard.gateway.sql.linked import Links
from brickyard.gateway.sql.metadata import Table
from brickyard.gateway.sql.operations import Operation, Phase
from brickyard.gateway.sql.values import values_of

_STATE = ttypes.TOperationState
_STATES = {
    Phase.RUNNING: _STATE.RUNNING_STATE,
    Phase.READY: _STATE.FINISHED_STATE,
    Phase.FAILED: _STATE.ERROR_STATE,
    Phase.CANCELED: _STATE.CANCELED_STATE,
}
_KIND = ttypes.TSparkRowSetType
_ARROW, _COLUMNS, _LINKS = _KIND.ARROW_BASED_SET, _KIND.COLUMN_BASED_SET, _KIND.URL_BASED_SET


def success() -> Any:
    """The TStatus of a call that went well."""
    return ttypes.TStatus(statusCode=ttypes.TStatusCode.SUCCESS_STATUS)


def failed(error: SqlFailed) -> Any:
    """The TStatus of a call that failed."""
    kind = ttypes.TStatusCode
    return ttypes.TStatus(
        statusCode=kind.INVALID_HANDLE_STATUS if error.session_gone else kind.ERROR_STATUS,
        sqlState=error.sql_state,
        errorCode=0,
        errorMessage=error.text,
        displayMessage=error.text,
    )


def invalid_handle(kind: str, handle_id: str, why: str) -> Any:
    """The TStatus for a handle of nothing, in the words that clients look for."""
    text = f"Invalid {kind}Handle: {kind}Handle [{handle_id}]. {why}"
    return ttypes.TStatus(
        statusCode=ttypes.TStatusCode.INVALID_HANDLE_STATUS, sqlState="HY000", errorCode=0, errorMessage=text, displayMessage=text
    )


def status_of(operation: Operation) -> Any:
    """The TGetOperationStatusResp of a statement."""
    error = operation.error if operation.phase is not Phase.READY else None
    return ttypes.TGetOperationStatusResp(
        status=success(),
        operationState=_STATES[operation.phase],
        hasResultSet=True,
        operationStarted=operation.statement.started_ms,
        sqlState=error.sql_state if error else None,
        errorCode=0 if error else None,
        errorMessage=error.text if error else None,
        displayMessage=error.text if error else None,
    )


def failure_of(operation: Operation) -> Any:
    """The TStatus of a call for the result of a statement that has none."""
    return failed(operation.error or SqlFailed("The statement was canceled.", sql_state=CANCELED))


def description_of(operation: Operation) -> Any:
    """The TGetResultSetMetadataResp of a statement that has a result."""
    form = form_of(operation.id)
    schema = table_schema(operation.columns)
    if not form.takes(operation.columns):
        return ttypes.TGetResultSetMetadataResp(status=success(), schema=schema, resultFormat=_COLUMNS, lz4Compressed=False)
    kind = _ARROW if operation.linked is None else _LINKS
    return ttypes.TGetResultSetMetadataResp(
        status=success(), schema=schema, resultFormat=kind, lz4Compressed=form.lz4, arrowSchema=operation.schema
    )


def rows_in(operation: Operation, part: Part) -> Any:
    """The TRowSet of a part of a result."""
    form = form_of(operation.id)
    if form.takes(operation.columns):
        batches = [_batch(chunk, compress=form.lz4) for chunk in part.chunks]
        return ttypes.TRowSet(startRowOffset=part.start, rows=[], arrowBatches=batches)
    values = [values_of(chunk.stream) for chunk in part.chunks]
    joined = [[value for each in values for value in each[at]] for at in range(len(operation.columns))]
    return row_set(operation.columns, joined, start=part.start)


def rows_behind(links: Links) -> Any:
    """The TRowSet of links to parts of a result. Times are in milliseconds, as JDBC and Node.js read them. Python and Go compare
    them with seconds: no link is expired to them."""
    found = [
        ttypes.TSparkArrowResultLink(
            fileLink=link.url, expiryTime=link.until_ms, startRowOffset=file.start, rowCount=file.rows, bytesNum=file.size
        )
        for file, link in links.files
    ]
    return ttypes.TRowSet(startRowOffset=links.start, rows=[], resultLinks=found)


def _batch(chunk: Chunk, *, compress: bool) -> Any:
    batches = cut(chunk.stream).batches
    return ttypes.TSparkArrowBatch(lz4.frame.compress(batches, block_linked=False) if compress else bytes(batches), chunk.rows)


def table_description(table: Table) -> Any:
    """The TGetResultSetMetadataResp of a table that is made here."""
    return ttypes.TGetResultSetMetadataResp(status=success(), schema=table_schema(table.columns), resultFormat=_COLUMNS)


def table_status() -> Any:
    """The TGetOperationStatusResp of a table that is made here."""
    return ttypes.TGetOperationStatusResp(status=success(), operationState=_STATE.FINISHED_STATE, hasResultSet=True)


def no_log() -> Any:
    """The TFetchResultsResp for the log of a statement, which is empty."""
    column = ttypes.TColumn(stringVal=ttypes.TStringColumn(values=[], nulls=b""))
    return ttypes.TFetchResultsResp(success(), False, ttypes.TRowSet(startRowOffset=0, rows=[], columns=[column], columnCount=1))
