"""The Query History API."""

from __future__ import annotations

from brickyard.api.edge.group import IN_WORKSPACE, Group
from brickyard.api.edge.registry import Operation
from brickyard.features.queries.service import QueryHistory

_QUERIES = Group("query_history", lambda ctx: ctx.services.query_history, "/api/2.0/sql/history/queries")
OPERATIONS: tuple[Operation, ...] = (
    _QUERIES("GET", QueryHistory.list, "SQL statements that ran, newest first", name="list", needs=IN_WORKSPACE),
)
