"""The audit log's API: ours."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Need, Operation
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.audit import ListAuditLogs, ListAuditLogsResponse
from brickyard.services.caller import Caller

_ADMIN = (Need(Permission.ADMIN, ObjectKind.WORKSPACE),)
JSON_LINES = "application/x-ndjson"


async def _list(ctx: ApiContext, caller: Caller, request: ListAuditLogs) -> ListAuditLogsResponse:
    return await ctx.services.audit.list(caller, request)


async def _export(ctx: ApiContext, caller: Caller, request: ListAuditLogs) -> Stream:
    return Stream(pieces=await ctx.services.audit.export(caller, request), close=lambda: None, content_type=JSON_LINES)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="audit_logs.list",
        method="GET",
        paths=("/api/2.0/audit-logs",),
        handler=_list,
        request=ListAuditLogs,
        response=ListAuditLogsResponse,
        summary="Who changed what: newest first, page by page",
        needs=_ADMIN,
    ),
    Operation(
        name="audit_logs.export",
        method="GET",
        paths=("/api/2.0/audit-logs/export",),
        handler=_export,
        request=ListAuditLogs,
        summary="The same as lines of JSON, all of it in one answer",
        needs=_ADMIN,
        content_type=JSON_LINES,
    ),
)
