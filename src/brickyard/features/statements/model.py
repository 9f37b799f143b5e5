"""Requests, answers and rows of the Statement Execution API, with its field names. Times are epoch milliseconds.

Source: databricks-sdk `service/sql.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec

from brickyard.domain.caller import Caller
from brickyard.domain.sources import UNKNOWN
from brickyard.domain.spec import Wire
from brickyard.domain.statements import StatementSource


class ExecutionState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    CLOSED = "CLOSED"

    @property
    def final(self) -> bool:
        return self not in (ExecutionState.PENDING, ExecutionState.RUNNING)


class Disposition(StrEnum):
    INLINE = "INLINE"
    EXTERNAL_LINKS = "EXTERNAL_LINKS"


class Format(StrEnum):
    JSON_ARRAY = "JSON_ARRAY"
    ARROW_STREAM = "ARROW_STREAM"
    CSV = "CSV"


class OnWaitTimeout(StrEnum):
    CONTINUE = "CONTINUE"
    CANCEL = "CANCEL"


class Parameter(Wire, frozen=True, kw_only=True):
    """`type`: a type of SQL, STRING by default. Without `value`: NULL."""

    name: str
    type: str | None = None
    value: str | None = None


class ExecuteStatement(Wire, frozen=True, kw_only=True):
    """`warehouse_id` may also be the id of an all-purpose cluster."""

    statement: str
    warehouse_id: str
    catalog: str | None = None
    schema: str | None = None
    parameters: list[Parameter] | None = None
    row_limit: int | None = None
    byte_limit: int | None = None
    disposition: Disposition = Disposition.INLINE
    format: Format = Format.JSON_ARRAY
    wait_timeout: str = "10s"
    on_wait_timeout: OnWaitTimeout = OnWaitTimeout.CONTINUE
    source: str = UNKNOWN  # where the call comes from
    base_url: str = ""
    user_agent: str = ""


class StatementId(Wire, frozen=True, kw_only=True):
    statement_id: str
    base_url: str = ""


class StatementChunk(StatementId, frozen=True, kw_only=True):
    chunk_index: int


class SignedChunk(Wire, frozen=True, kw_only=True):
    statement_id: str
    chunk_index: int
    signature: str = ""


class ColumnInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type_text: str
    type_name: str
    position: int = msgspec.field(default=-1)  # from 0; always written
    type_precision: int | None = None
    type_scale: int | None = None
    type_interval_type: str | None = None


class ResultSchema(msgspec.Struct, frozen=True, kw_only=True):
    column_count: int
    columns: list[ColumnInfo]


class ChunkInfo(msgspec.Struct, frozen=True, kw_only=True):
    chunk_index: int
    row_offset: int
    row_count: int
    byte_count: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: Format
    schema: ResultSchema
    total_chunk_count: int
    total_row_count: int
    total_byte_count: int
    truncated: bool
    chunks: list[ChunkInfo]


class ServiceError(msgspec.Struct, frozen=True, kw_only=True):
    error_code: str
    message: str


class StatementStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    state: ExecutionState
    error: ServiceError | None = None
    sql_state: str = ""


class ExternalLink(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    external_link: str
    expiration: str
    chunk_index: int = msgspec.field(default=-1)
    row_offset: int = msgspec.field(default=-1)
    row_count: int = msgspec.field(default=-1)
    byte_count: int = msgspec.field(default=-1)
    next_chunk_index: int | None = None
    next_chunk_internal_link: str | None = None


class ResultData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    chunk_index: int | None = None
    row_offset: int | None = None
    row_count: int | None = None
    byte_count: int | None = None
    data_array: list[list[str | None]] | None = None
    external_links: list[ExternalLink] | None = None
    next_chunk_index: int | None = None
    next_chunk_internal_link: str | None = None


class StatementAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    statement_id: str
    status: StatementStatus
    manifest: Manifest | None = None
    result: ResultData | None = None


class StatementRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A statement as it is stored. `beat_ms`: when the server that runs it last said so."""

    statement_id: str
    user_name: str
    user_id: str
    warehouse_id: str
    created_ms: int
    beat_ms: int
    expires_ms: int  # when it is forgotten, with its result
    disposition: Disposition
    format: Format
    state: ExecutionState = ExecutionState.PENDING
    error: ServiceError | None = None
    sql_state: str = ""
    manifest: Manifest | None = None


# --- what runs statements, and reads Arrow ---


class Session(NamedTuple):
    """A session that several statements share, until `SqlRunner.end`; it outlives this server. `resume`: another server may have
    begun the statement. `leaving`: whether this server stops, so that what runs is left to another one. `refusal`: why the
    statement may not begin any more, "" if it may; asked when it can be sent to that session alone."""

    session_id: str
    resume: bool
    leaving: Callable[[], bool]
    refusal: Callable[[], Awaitable[str]]


class Query(NamedTuple):
    """A statement to run. `address`, `application`: where it comes from, and what its client calls itself. `session`: None if it
    has one of its own."""

    statement_id: str
    text: str
    warehouse_id: str
    cluster_id: str
    catalog: str = ""
    schema: str = ""
    parameters: Sequence[Parameter] = ()
    row_limit: int | None = None
    address: str = ""
    application: str = ""
    source: StatementSource = StatementSource.STATEMENT_API
    session: Session | None = None


class Part(NamedTuple):
    """A part of a result: a whole Arrow stream with that many rows."""

    rows: int
    stream: bytes


class StatementFailed(Exception):
    """A statement has failed. `sql_state`: "" if Spark says none."""

    def __init__(self, message: str, *, sql_state: str = "", error_code: str = "BAD_REQUEST") -> None:
        super().__init__(message)
        self.message = message
        self.sql_state = sql_state
        self.error_code = error_code


class SqlRunner(Protocol):
    """What runs statements and reads their results. Implemented by the gateway."""

    def run(self, caller: Caller, query: Query) -> AsyncIterator[Part]:
        """Run a statement; starts the warehouse and waits for it. The first part has the columns and no rows. Closing the
        iterator ends the statement and its Spark jobs, unless it is left to another server. Raises StatementFailed."""
        ...

    async def end(self, caller: Caller, cluster_id: str, session_id: str) -> None:
        """End a session and what runs in it; nothing begins in it any more. Raises StatementFailed."""
        ...

    def columns(self, stream: bytes) -> list[ColumnInfo]:
        """The columns of an Arrow stream."""
        ...

    def rows(self, stream: bytes) -> list[list[str | None]]:
        """The rows of an Arrow stream as JSON_ARRAY has them."""
        ...
