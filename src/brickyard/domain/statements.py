"""SQL statements: the settings that they run with, and what their history has of them."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping

import msgspec

# Names of Databricks' SQL settings, and Spark's [Databricks, "Configuration parameters" of SQL].
SQL_SETTINGS: Mapping[str, str] = {
    "ANSI_MODE": "spark.sql.ansi.enabled",
    "TIMEZONE": "spark.sql.session.timeZone",
    "MAX_FILE_PARTITION_BYTES": "spark.sql.files.maxPartitionBytes",
}


_READS = re.compile(r"\s*(SELECT|SHOW|DESC|DESCRIBE|EXPLAIN|VALUES|USE|SET(?!\s+VAR(IABLE)?\b))\b", re.IGNORECASE)


def may_change(statement: str) -> bool:
    """Whether a statement may have an effect that a second run would repeat."""
    return _READS.match(statement) is None


class StatementSource(enum.StrEnum):
    """Which way a statement came."""

    THRIFT = "THRIFT"  # JDBC, ODBC and the SQL connectors
    STATEMENT_API = "STATEMENT_API"
    JOB = "JOB"  # a SQL task


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


class StatementPosition(msgspec.Struct, frozen=True, array_like=True):
    """A position in the history, newest first: the next page holds what is strictly older."""

    started_ms: int
    statement_id: str
