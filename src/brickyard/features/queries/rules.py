"""How a statement of the history is shown. Pure."""

from __future__ import annotations

import re

from brickyard.features.queries.model import RUNNING, QueryInfo, QueryMetrics, QueryRow

MOST_TEXT = 100_000  # characters of a statement that are kept
_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/|\()*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_TYPES = {
    "ALTER", "ANALYZE", "COPY", "CREATE", "DELETE", "DESCRIBE", "DROP", "EXPLAIN", "GRANT", "INSERT", "MERGE", "OPTIMIZE",
    "REFRESH", "REPLACE", "REVOKE", "SELECT", "SET", "SHOW", "TRUNCATE", "UPDATE", "USE",
}  # fmt: skip
_ALIASES = {"WITH": "SELECT", "VALUES": "SELECT", "FROM": "SELECT", "TABLE": "SELECT", "DESC": "DESCRIBE"}


def statement_type(text: str) -> str:
    """Which kind of statement it is, by its first word."""
    start = _COMMENTS.match(text)
    word = _WORD.match(text, start.end() if start else 0)
    found = word[0].upper() if word else ""
    found = _ALIASES.get(found, found)
    return found if found in _TYPES else "OTHER"


def view(row: QueryRow, *, with_metrics: bool) -> QueryInfo:
    """A statement as answers show it."""
    final = row.status != RUNNING
    user_id = int(row.user_id) if row.user_id.isdigit() else 0
    took = row.ended_ms - row.started_ms if final else None
    return QueryInfo(
        query_id=row.query_id,
        status=row.status,
        query_text=row.text,
        query_start_time_ms=row.started_ms,
        user_id=user_id,
        user_name=row.user_name,
        executed_as_user_id=user_id,
        executed_as_user_name=row.user_name,
        session_id=row.session_id,
        cluster_id=row.cluster_id,
        source=row.source,
        statement_type=statement_type(row.text),
        is_final=final,
        warehouse_id=row.warehouse_id,
        endpoint_id=row.warehouse_id,
        client_application=row.client_application,
        query_end_time_ms=row.ended_ms or None,
        execution_end_time_ms=row.ended_ms or None,
        duration=took,
        rows_produced=row.rows_produced if final else None,
        error_message=row.error,
        sql_state=row.sql_state,
        metrics=QueryMetrics(total_time_ms=took, execution_time_ms=took, rows_produced_count=row.rows_produced)
        if with_metrics and took is not None
        else None,
    )
