"""What agents call; see `domain.node` for the protocol. Not for users, so not in the OpenAPI document."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.registry import Auth, Operation
from brickyard.api.wire import AssignmentQuery
from brickyard.domain.node import AssignmentReply, StatusReply, StatusReport
from brickyard.services.caller import Caller

REPORT_LIMIT = 1024 * 1024  # bytes: it is read before its sender is known


async def _status(ctx: ApiContext, caller: Caller, request: StatusReport) -> StatusReply:
    return await ctx.agents.report(request)


async def _assignment(ctx: ApiContext, caller: Caller, request: AssignmentQuery) -> AssignmentReply:
    return await ctx.agents.assignment(request.instance_id, request.have, request.wait)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="agents.status",
        method="POST",
        paths=("/agent/v1/status",),
        handler=_status,
        request=StatusReport,
        response=StatusReply,
        summary="An agent reports what its node is",
        auth=Auth.AGENT,
        body_limit=REPORT_LIMIT,
        documented=False,
    ),
    Operation(
        name="agents.assignment",
        method="GET",
        paths=("/agent/v1/assignment",),
        handler=_assignment,
        request=AssignmentQuery,
        response=AssignmentReply,
        summary="An agent waits for what its node should be",
        auth=Auth.AGENT,
        documented=False,
    ),
)
