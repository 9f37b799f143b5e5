"""Logs of clusters. Specific to Brickyard: at Databricks only the web pages show them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.nodeops import ReadLog
from brickyard.services.caller import Caller
from brickyard.services.clusterlogs import MAX_READ, ClusterLogList, LogText

_NEEDS = (Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, "cluster_id"),)


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


async def _list(ctx: ApiContext, caller: Caller, request: ListLogs) -> ClusterLogList:
    found: ClusterLogList = await ctx.logs.list(caller, request.cluster_id)
    return found


async def _read(ctx: ApiContext, caller: Caller, request: ReadClusterLog) -> LogText:
    asked = ReadLog(name="", offset=request.offset, position=request.position, limit=request.limit)
    text: LogText = await ctx.logs.read(caller, request.cluster_id, request.file, asked)
    return text


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
)
