"""The audit log's API: ours."""

from __future__ import annotations

from brickyard.api.edge.group import ADMIN, Group
from brickyard.api.edge.registry import Operation
from brickyard.api.edge.streaming import Stream
from brickyard.domain.audit import ListAuditLogs
from brickyard.domain.caller import Caller
from brickyard.features.audit.service import AuditLog

JSON_LINES = "application/x-ndjson"


async def _export(audit: AuditLog, caller: Caller, request: ListAuditLogs) -> Stream:
    return Stream(pieces=await audit.export(caller, request), content_type=JSON_LINES)


_AUDIT = Group("audit_logs", lambda ctx: ctx.services.audit, "/api/2.0/audit-logs", needs=ADMIN)
OPERATIONS: tuple[Operation, ...] = (
    _AUDIT("GET", AuditLog.list, "Who changed what: newest first, page by page", name="list"),
    _AUDIT("GET /export", _export, "The same as lines of JSON, all of it in one answer", content_type=JSON_LINES),
)
