"""SQL statements that ran on a cluster, as their history has them."""

from __future__ import annotations

import enum

import msgspec


class StatementSource(enum.StrEnum):
    """Which way a statement came."""

    THRIFT = "THRIFT"  # JDBC, ODBC and the SQL connectors
    STATEMENT_API = "STATEMENT_API"


class StatementState(enum.StrEnum):
    """How a statement has ended."""

    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"  # by its client, by a limit of time, or because its client is gone


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that has begun. `statement_id` is a UUID, which Spark has as the id of its operation. Times are in
    milliseconds since the epoch."""

    statement_id: str
    user_name: str
    cluster_id: str
    warehouse_id: str = ""  # "": the client named the cluster itself
    session_id: str
    text: str
    source: StatementSource
    client_application: str = ""  # as the client names itself
    started_ms: int


class StatementOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a statement. `rows_produced` counts the rows that were read from the driver. `error` is Spark's message
    without a stack trace; "" if there is none."""

    state: StatementState
    ended_ms: int
    rows_produced: int = 0
    error: str = ""
    sql_state: str = ""
    error_class: str = ""
