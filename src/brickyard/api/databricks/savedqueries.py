"""The Queries API: saved SQL queries."""

from __future__ import annotations

from brickyard.api.edge.group import IN_WORKSPACE, Group
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.features.savedqueries.service import SavedQueryService


def _query(permission: Permission) -> Need:
    return Need(permission, ObjectKind.QUERY, "id")


_QUERIES = Group("saved_queries", lambda ctx: ctx.services.saved_queries, "/api/2.0/sql/queries", errors=(404,))
OPERATIONS: tuple[Operation, ...] = (
    _QUERIES("POST", SavedQueryService.create, "Save a query", name="create", needs=IN_WORKSPACE),
    _QUERIES(
        "GET",
        SavedQueryService.list,
        "Saved queries, oldest first",
        name="list",
        needs=Need(Permission.CAN_READ, ObjectKind.QUERY, EVERY),
    ),
    _QUERIES("GET /{id}", SavedQueryService.get, "One saved query", name="get", needs=_query(Permission.CAN_READ)),
    _QUERIES("PATCH /{id}", SavedQueryService.update, "Change a query", name="update", needs=_query(Permission.CAN_EDIT)),
    _QUERIES("DELETE /{id}", SavedQueryService.delete, "Delete a query", name="delete", needs=_query(Permission.CAN_MANAGE)),
)
