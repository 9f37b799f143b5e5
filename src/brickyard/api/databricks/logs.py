"""Logs of clusters. Specific to Brickyard: at Databricks only the web pages show them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Need, Operation
from brickyard.api.edge.sse import CONTENT_TYPE, LAST_EVENT_ID, ServerEvent, event_stream
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.nodeops import ReadLog
from brickyard.services.caller import Caller
from brickyard.services.clusterlogs import MAX_READ, ClusterLogList, LogText
from brickyard.services.logfollowing import Follower

_NEEDS = (Need(Permission.CAN_MANAGE, ObjectKind.CLUSTER, "cluster_id"),)


class ListLogs(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str = ""


class ReadClusterLog(msgspec.Struct, frozen=True, kw_only=True):
    """`file` is named by `list`. A negative `offset` counts from the end; `position` (from `next_position`) counts more than
    `offset`."""

    cluster_id: str = ""
    file: str = ""
    offset: int = 0
    position: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_READ)] = 65536


class FollowClusterLog(msgspec.Struct, frozen=True, kw_only=True):
    """As ReadClusterLog. A client that reconnects sends the id of the last event as `position`, or as Last-Event-ID."""

    cluster_id: str = ""
    file: str = ""
    offset: int = 0
    position: str = ""


async def _list(ctx: ApiContext, caller: Caller, request: ListLogs) -> ClusterLogList:
    found: ClusterLogList = await ctx.services.logs.list(caller, request.cluster_id)
    return found


async def _read(ctx: ApiContext, caller: Caller, request: ReadClusterLog) -> LogText:
    asked = ReadLog(name="", offset=request.offset, position=request.position, limit=request.limit)
    text: LogText = await ctx.services.logs.read(caller, request.cluster_id, request.file, asked)
    return text


async def _follow(ctx: ApiContext, caller: Caller, request: FollowClusterLog) -> Stream:
    asked = ReadLog(name="", offset=request.offset, position=request.position)
    follower: Follower = await ctx.services.log_followers.follow(caller, request.cluster_id, request.file, asked)
    return event_stream(_events(follower), close=follower.close)


async def _events(follower: Follower) -> AsyncIterator[ServerEvent | None]:
    async for each in follower.texts():
        if each is None:
            yield None
            continue
        data = {"offset": each.offset, "text": each.text, "skipped": each.skipped}
        if each.text or each.skipped:
            yield ServerEvent(each.position, "text", msgspec.json.encode(data).decode())
        if each.ended:
            yield ServerEvent(each.position, "end", "{}")


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="clusters.list_logs",
        method="GET",
        paths=("/api/2.1/clusters/logs/list", "/api/2.0/clusters/logs/list"),
        handler=_list,
        request=ListLogs,
        response=ClusterLogList,
        summary="The logs of a cluster's nodes, running and ended",
        needs=_NEEDS,
        errors=(404,),
    ),
    Operation(
        name="clusters.read_log",
        method="GET",
        paths=("/api/2.1/clusters/logs/read", "/api/2.0/clusters/logs/read"),
        handler=_read,
        request=ReadClusterLog,
        response=LogText,
        summary="Part of a log",
        needs=_NEEDS,
        errors=(404, 503),
    ),
    Operation(
        name="clusters.follow_log",
        method="GET",
        paths=("/api/2.1/clusters/logs/follow", "/api/2.0/clusters/logs/follow"),
        handler=_follow,
        request=FollowClusterLog,
        from_headers={LAST_EVENT_ID: "position"},
        summary="A log as it is written, as server-sent events, until its node has ended or the client closes the connection",
        needs=_NEEDS,
        content_type=CONTENT_TYPE,
        errors=(404, 503),
    ),
)
