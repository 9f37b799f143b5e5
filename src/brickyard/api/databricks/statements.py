"""The SQL Statement Execution API."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Auth, Need, Operation
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.features.statements import model
from brickyard.features.statements.service import StatementService

# A statement is its user's alone: who may run it on the warehouse may see and end it.
_OWN = Need(Permission.WORKSPACE_ACCESS, ObjectKind.WORKSPACE)
_STATEMENTS = Group("statements", lambda ctx: ctx.services.statements, "/api/2.0/sql/statements", errors=(404,))


async def _external(context: ApiContext, _caller: Caller, request: model.SignedChunk) -> Reply | Stream:
    kind, content = await context.services.statements.external(request)
    if isinstance(content, bytes):
        return Reply(status=200, body=content, content_type=kind)
    size = ("content-length", str(content.size))
    return Stream(pieces=content.pieces(), source=content, content_type=kind, headers=(size,))


OPERATIONS: tuple[Operation, ...] = (
    _STATEMENTS(
        "POST",
        StatementService.execute,
        "Run a SQL statement on a warehouse, which starts",
        name="execute",
        needs=Need(Permission.CAN_USE, ObjectKind.WAREHOUSE, "warehouse_id"),
        body_limit=20 << 20,
        makes_work=True,
        tells_delivery=True,
        with_source=True,
        with_base_url=True,
        from_headers={"user-agent": "user_agent"},
    ),
    _STATEMENTS(
        "GET /{statement_id}",
        StatementService.get,
        "What has become of a statement",
        name="get",
        needs=_OWN,
        with_base_url=True,
    ),
    _STATEMENTS("POST /{statement_id}/cancel", StatementService.cancel, "End a statement", name="cancel", needs=_OWN),
    _STATEMENTS(
        "GET /{statement_id}/result/chunks/{chunk_index}",
        StatementService.chunk,
        "One chunk of a statement's result",
        name="chunk",
        needs=_OWN,
        with_base_url=True,
    ),
    Operation(
        name="statements.external",
        method="GET",
        paths=("/api/2.0/sql/statements/{statement_id}/external/{chunk_index}",),
        handler=_external,
        request=model.SignedChunk,
        summary="A chunk of a result, by its signed link",
        needs=(),
        auth=Auth.NONE,
        errors=(403, 404),
    ),
)
