"""Cluster changes as a stream of server-sent events. Specific to Brickyard: Databricks' web pages poll instead."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.databricks.dialects import CLUSTERS
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.api.edge.sse import CONTENT_TYPE, LAST_EVENT_ID, ServerEvent, event_stream
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.services.caller import Caller
from brickyard.services.clusterchanges import Watcher


class WatchClusters(msgspec.Struct, frozen=True, kw_only=True):
    last_event_id: str = ""


async def _watch(ctx: ApiContext, caller: Caller, request: WatchClusters) -> Stream:
    watcher = await ctx.changes.watch(caller, after=request.last_event_id)
    return event_stream(_events(watcher), close=watcher.close)


async def _events(watcher: Watcher) -> AsyncIterator[ServerEvent | None]:
    async for change in watcher.changes():
        if change is None:
            yield None
        elif change.cluster_ids is None:
            yield ServerEvent(change.position, "reset", "{}")
        else:
            yield ServerEvent(change.position, "changed", msgspec.json.encode({"cluster_ids": change.cluster_ids}).decode())


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="clusters.changes",
        method="GET",
        paths=("/api/2.1/clusters/changes", "/api/2.0/clusters/changes"),
        handler=_watch,
        request=WatchClusters,
        from_headers={LAST_EVENT_ID: "last_event_id"},
        summary="Which clusters change, as server-sent events, until the client closes the connection",
        needs=(Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, EVERY),),
        dialect=CLUSTERS,
        content_type=CONTENT_TYPE,
        errors=(503,),
    ),
)
