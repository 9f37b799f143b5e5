"""Logs of clusters. Specific to Brickyard: at Databricks only the web pages show them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec

from brickyard.api.edge.group import CAN_MANAGE, Group
from brickyard.api.edge.registry import Operation
from brickyard.api.edge.sse import CONTENT_TYPE, ServerEvent, event_stream
from brickyard.api.edge.streaming import Stream
from brickyard.clusters.logs.following import Follower, LogFollowers
from brickyard.clusters.logs.service import MAX_READ, ClusterLogList, ClusterLogs, LogText
from brickyard.domain.caller import Caller
from brickyard.domain.nodeops import ReadLog


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


async def _list(logs: ClusterLogs, caller: Caller, request: ListLogs) -> ClusterLogList:
    found: ClusterLogList = await logs.list(caller, request.cluster_id)
    return found


async def _read(logs: ClusterLogs, caller: Caller, request: ReadClusterLog) -> LogText:
    asked = ReadLog(name="", offset=request.offset, position=request.position, limit=request.limit)
    text: LogText = await logs.read(caller, request.cluster_id, request.file, asked)
    return text


async def _follow(log_followers: LogFollowers, caller: Caller, request: FollowClusterLog) -> Stream:
    asked = ReadLog(name="", offset=request.offset, position=request.position)
    follower: Follower = await log_followers.follow(caller, request.cluster_id, request.file, asked)
    return event_stream(_events(follower), source=follower)


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


_FOLLOW = Group("clusters", lambda ctx: ctx.services.log_followers, "/api/2.1/clusters/logs", "/api/2.0/clusters/logs")
_LOGS = Group("clusters", lambda ctx: ctx.services.logs, "/api/2.1/clusters/logs", "/api/2.0/clusters/logs", needs=CAN_MANAGE)
OPERATIONS: tuple[Operation, ...] = (
    _LOGS("GET /list", _list, "The logs of a cluster's nodes, running and ended", name="list_logs", errors=(404,)),
    _LOGS("GET /read", _read, "Part of a log", name="read_log", errors=(404, 503)),
    _FOLLOW(
        "GET /follow",
        _follow,
        "A log as it is written, as server-sent events, until its node has ended or the client closes the connection",
        name="follow_log",
        needs=CAN_MANAGE,
        content_type=CONTENT_TYPE,
        from_headers={"last-event-id": "position"},
        errors=(404, 503),
    ),
)
