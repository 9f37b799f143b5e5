"""Operations for administrators: liveness, readiness, metrics, capabilities."""

from __future__ import annotations

import asyncio

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from brickyard.api.context import ApiContext
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Auth, Empty, Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import RETRY_AFTER_S
from brickyard.domain.spec import Wire


class Health(Wire, frozen=True, kw_only=True):
    """`reason` is set when something is wrong, also when the disk is full and the API is ready nevertheless; `servers`, the
    workspace's number of servers, when the API is ready."""

    status: str
    reason: str | None = None
    servers: int | None = None


async def _healthz(ctx: ApiContext, caller: Caller, request: Empty) -> Health:
    return Health(status="ok")


async def _readyz(ctx: ApiContext, caller: Caller, request: Empty) -> Health | Reply:
    if not (reason := await ctx.server.ready()):
        return Health(status="ready", servers=ctx.server.servers(), reason=ctx.server.disk_shortage() or None)
    body = msgspec.json.encode(Health(status="not ready", reason=reason))
    return Reply(status=503, body=body, headers=(("retry-after", str(RETRY_AFTER_S)),))


async def _metrics(ctx: ApiContext, caller: Caller, request: Empty) -> Reply:
    await ctx.server.refresh_metrics()
    # On another thread, because it inspects this process and its disk.
    return Reply(body=await asyncio.to_thread(generate_latest, ctx.metrics), content_type=CONTENT_TYPE_LATEST)


_HEALTH = Group("health", lambda ctx: ctx, needs=())
OPERATIONS: tuple[Operation, ...] = (
    _HEALTH("GET /healthz", _healthz, "Whether the server is alive", name="live", auth=Auth.NONE, anywhere=True),
    _HEALTH(
        "GET /readyz",
        _readyz,
        "Whether the API is ready; 503 with the reason if not",
        name="ready",
        auth=Auth.NONE,
        anywhere=True,
        errors=(503,),
    ),
    _HEALTH("GET /metrics", _metrics, "Metrics in Prometheus' text format", auth=Auth.METRICS, content_type="text/plain"),
)
