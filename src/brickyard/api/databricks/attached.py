"""Who is attached to a cluster, and a link to its Spark UI. Brickyard only: Databricks shows both just in its web pages."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.nodeops import AttachedTo
from brickyard.services.caller import Caller


class Ref(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str = ""


class LinkRequest(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str = ""
    base_url: str = ""


class SparkUiLink(msgspec.Struct, frozen=True, kw_only=True):
    """`url` opens the cluster's Spark UI in the caller's browser until `expiration_time` (epoch ms)."""

    url: str
    expiration_time: int


async def _list(ctx: ApiContext, caller: Caller, request: Ref) -> AttachedTo:
    found: AttachedTo = await ctx.services.attach.attached(caller, request.cluster_id)
    return found


async def _link(ctx: ApiContext, caller: Caller, request: LinkRequest) -> SparkUiLink:
    cluster = (await ctx.services.attach.look(caller, request.cluster_id)).cluster
    key, until_ms = ctx.services.ui_links.make(caller, cluster.cluster_id)
    return SparkUiLink(url=f"{request.base_url}/spark-ui/{quote(cluster.cluster_id)}/~{key}/", expiration_time=until_ms)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="clusters.list_attached",
        method="GET",
        paths=("/api/2.1/clusters/list-attached", "/api/2.0/clusters/list-attached"),
        handler=_list,
        request=Ref,
        response=AttachedTo,
        summary="The execution contexts and Spark Connect sessions of a cluster",
        needs=(Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, "cluster_id"),),
        errors=(404, 503),
    ),
    Operation(
        name="clusters.spark_ui_link",
        method="GET",
        paths=("/api/2.1/clusters/spark-ui-link", "/api/2.0/clusters/spark-ui-link"),
        handler=_link,
        request=LinkRequest,
        response=SparkUiLink,
        summary="A link that opens a cluster's Spark UI in a browser",
        needs=(Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, "cluster_id"),),
        with_base_url=True,
        errors=(404,),
    ),
)
