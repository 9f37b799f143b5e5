"""Who is attached to a cluster, and a link to its Spark UI. Brickyard only: Databricks shows both just in its web pages."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.group import CAN_ATTACH, Group
from brickyard.api.edge.registry import Operation
from brickyard.clusters.attach.service import AttachService
from brickyard.domain.caller import Caller
from brickyard.domain.nodeops import AttachedTo


class Ref(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str = ""


class LinkRequest(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str = ""
    base_url: str = ""


class SparkUiLink(msgspec.Struct, frozen=True, kw_only=True):
    """`url` opens the cluster's Spark UI in the caller's browser until `expiration_time` (epoch ms)."""

    url: str
    expiration_time: int


async def _list(attach: AttachService, caller: Caller, request: Ref) -> AttachedTo:
    found: AttachedTo = await attach.attached(caller, request.cluster_id)
    return found


async def _link(ctx: ApiContext, caller: Caller, request: LinkRequest) -> SparkUiLink:
    cluster = (await ctx.services.attach.look(caller, request.cluster_id)).cluster
    key, until_ms = ctx.services.ui_links.make(caller, cluster.cluster_id)
    return SparkUiLink(url=f"{request.base_url}/spark-ui/{quote(cluster.cluster_id)}/~{key}/", expiration_time=until_ms)


_ATTACHED = Group("clusters", lambda ctx: ctx.services.attach, "/api/2.1/clusters", "/api/2.0/clusters")
_LINKS = Group("clusters", lambda ctx: ctx, "/api/2.1/clusters", "/api/2.0/clusters")
OPERATIONS: tuple[Operation, ...] = (
    _ATTACHED(
        "GET /list-attached",
        _list,
        "The execution contexts and Spark Connect sessions of a cluster",
        needs=CAN_ATTACH,
        errors=(404, 503),
    ),
    _LINKS(
        "GET /spark-ui-link",
        _link,
        "A link that opens a cluster's Spark UI in a browser",
        needs=CAN_ATTACH,
        with_base_url=True,
        errors=(404,),
    ),
)
