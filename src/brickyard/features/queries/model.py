"""Requests, answers and rows of the Query History API, with its field names. Times are epoch milliseconds.

Source: databricks-sdk `service/sql.py`.
"""

from __future__ import annotations

import msgspec

from brickyard.domain.spec import Wire

RUNNING = "RUNNING"


class TimeRange(Wire, frozen=True, kw_only=True):
    start_time_ms: int | None = None
    end_time_ms: int | None = None


class QueryFilter(Wire, frozen=True, kw_only=True):
    """All the given conditions must match; a list matches any of its values. `warehouse_ids` may name clusters, too."""

    query_start_time_range: TimeRange | None = None
    statement_ids: list[str] | None = None
    statuses: list[str] | None = None
    user_ids: list[int] | None = None
    warehouse_ids: list[str] | None = None


class ListQueries(Wire, frozen=True, kw_only=True):
    filter_by: QueryFilter | None = None
    include_metrics: bool = False
    max_results: int | None = None
    page_token: str | None = None


class QueryRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A statement as it is stored. `ended_ms`: 0 while it runs; `beat_ms`: when its server last said that it does."""

    query_id: str
    user_name: str
    user_id: str = ""
    cluster_id: str
    warehouse_id: str = ""
    session_id: str
    text: str
    source: str
    client_application: str = ""
    started_ms: int
    beat_ms: int
    status: str = RUNNING
    ended_ms: int = 0
    rows_produced: int = 0
    error: str = ""
    sql_state: str = ""


class QueryMetrics(msgspec.Struct, frozen=True, kw_only=True):
    total_time_ms: int
    execution_time_ms: int
    rows_produced_count: int
    result_from_cache: bool = False


class QueryInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`cluster_id`, `source` (THRIFT, STATEMENT_API or JOB) and `sql_state` are ours."""

    query_id: str
    status: str
    query_text: str
    query_start_time_ms: int
    user_id: int
    user_name: str
    executed_as_user_id: int
    executed_as_user_name: str
    session_id: str
    cluster_id: str
    source: str
    statement_type: str
    is_final: bool
    warehouse_id: str = ""
    endpoint_id: str = ""
    client_application: str = ""
    query_end_time_ms: int | None = None
    execution_end_time_ms: int | None = None
    duration: int | None = None
    rows_produced: int | None = None
    error_message: str = ""
    sql_state: str = ""
    metrics: QueryMetrics | None = None


class QueryList(msgspec.Struct, frozen=True, kw_only=True):
    res: list[QueryInfo]
    has_next_page: bool
    next_page_token: str = ""
