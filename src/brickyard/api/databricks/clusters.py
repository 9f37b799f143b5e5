"""The Clusters API: 17 calls under 2.1, and under 2.0 for older clients."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard.api.databricks.dialects import CLUSTERS
from brickyard.api.edge.decode import Unread
from brickyard.api.edge.group import CAN_ATTACH, CAN_MANAGE, CAN_RESTART, IN_WORKSPACE, Group, on_cluster
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.clusters.service import ClusterService
from brickyard.domain import requests as ask
from brickyard.domain import views as view
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.validation import ClusterValidation, FieldError


async def _create(
    clusters: ClusterService, caller: Caller, request: ask.CreateCluster
) -> view.CreateClusterResponse | ClusterValidation:
    if request.validate_only:
        return await clusters.validate_create(caller, request)
    return view.CreateClusterResponse(cluster_id=await clusters.create(caller, request))


def _unread(verdict: ClusterValidation, unread: Sequence[Unread]) -> ClusterValidation:
    """The verdict on a specification of which some fields could not be decoded, and were left out."""
    left_out = {_top(each.field) for each in unread}
    errors = [FieldError(field=each.field, message=each.message) for each in unread]
    errors += [each for each in verdict.errors if _top(each.field) not in left_out]
    return msgspec.structs.replace(verdict, valid=False, errors=errors, effective=None, price_per_hour=None)


def _top(path: str) -> str:
    return path.replace("[", ".").partition(".")[0]


async def _get(clusters: ClusterService, caller: Caller, request: ask.ClusterId) -> bytes:
    return await clusters.get(caller, request.cluster_id)


async def _list(clusters: ClusterService, caller: Caller, request: ask.ListClusters) -> bytes:
    return await clusters.list(caller, request, paged=True)


async def _list_all(clusters: ClusterService, caller: Caller, request: ask.ListClusters) -> bytes:
    return await clusters.list(caller, request, paged=False)


async def _edit(clusters: ClusterService, caller: Caller, request: ask.EditCluster) -> ClusterValidation | None:
    if request.validate_only:
        return await clusters.validate_edit(caller, request)
    await clusters.edit(caller, request)
    return None


def _named(where: str = "") -> tuple[Need, ...]:
    """The permissions for the pools and the policy that a specification names."""
    return (
        Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, f"{where}instance_pool_id"),
        Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, f"{where}driver_instance_pool_id"),
        Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, f"{where}policy_id"),
    )


_CLUSTERS_21 = Group("clusters", lambda ctx: ctx.services.clusters, "/api/2.1/clusters", dialect=CLUSTERS)
_CLUSTERS_20 = Group("clusters", lambda ctx: ctx.services.clusters, "/api/2.0/clusters", dialect=CLUSTERS)
_CLUSTERS = Group("clusters", lambda ctx: ctx.services.clusters, "/api/2.1/clusters", "/api/2.0/clusters", dialect=CLUSTERS)
OPERATIONS: tuple[Operation, ...] = (
    _CLUSTERS(
        "POST /create",
        _create,
        "Create a cluster and start it; answers before it runs",
        needs=(
            Need(Permission.ALLOW_CLUSTER_CREATE, ObjectKind.WORKSPACE, unless="policy_id"),
            *_named(),
            on_cluster(Permission.CAN_ATTACH_TO, "clone_from.source_cluster_id"),
        ),
        validation=ClusterValidation,
        unread=_unread,
        makes_work=True,
        errors=(404,),  # a policy that it names
    ),
    _CLUSTERS("GET /get", _get, "One cluster", needs=CAN_ATTACH, response=view.ClusterDetails),
    _CLUSTERS_21(
        "GET /list",
        _list,
        "Clusters, page by page",
        needs=on_cluster(Permission.CAN_ATTACH_TO, EVERY),
        response=view.ListClustersResponse,
    ),
    # Clients of 2.0 never request a second page.
    _CLUSTERS_20(
        "GET /list",
        _list_all,
        "All clusters in one answer",
        name="list_all",
        needs=on_cluster(Permission.CAN_ATTACH_TO, EVERY),
        response=view.ListClustersResponse,
    ),
    _CLUSTERS("POST /start", ClusterService.start, "Start a terminated cluster", needs=CAN_RESTART, makes_work=True),
    _CLUSTERS("POST /restart", ClusterService.restart, "Restart a running cluster", needs=CAN_RESTART, makes_work=True),
    _CLUSTERS("POST /delete", ClusterService.delete, "Terminate a cluster; it can be started again", needs=CAN_RESTART),
    _CLUSTERS("POST /permanent-delete", ClusterService.permanent_delete, "Permanently delete a cluster", needs=CAN_MANAGE),
    _CLUSTERS(
        "POST /edit",
        _edit,
        "Replace a cluster's specification",
        needs=(CAN_MANAGE, *_named()),
        validation=ClusterValidation,
        unread=_unread,
        makes_work=True,
        errors=(409,),  # expected_spec
    ),
    _CLUSTERS(
        "POST /update",
        ClusterService.update,
        "Change parts of a cluster's specification",
        needs=(CAN_MANAGE, *_named("cluster.")),
        makes_work=True,
    ),
    _CLUSTERS(
        "POST /resize", ClusterService.resize, "Change a running cluster's number of workers", needs=CAN_MANAGE, makes_work=True
    ),
    _CLUSTERS("POST /pin", ClusterService.pin, "Keep a terminated cluster in the list", needs=on_cluster(Permission.ADMIN)),
    _CLUSTERS("POST /unpin", ClusterService.unpin, "Undo a pin", needs=on_cluster(Permission.ADMIN)),
    _CLUSTERS(
        "POST /change-owner",
        ClusterService.change_owner,
        "Change the owner of a terminated cluster",
        needs=on_cluster(Permission.ADMIN),
    ),
    _CLUSTERS("POST /events", ClusterService.events, "A cluster's events", needs=CAN_ATTACH, only_reads=True),
    _CLUSTERS(
        "GET /list-node-types",
        ClusterService.list_node_types,
        "Available node types",
        needs=IN_WORKSPACE,
        response=view.ListNodeTypesResponse,
    ),
    _CLUSTERS(
        "GET /list-zones",
        ClusterService.list_zones,
        "Available zones",
        needs=IN_WORKSPACE,
        response=view.ListAvailableZonesResponse,
    ),
    _CLUSTERS(
        "GET /spark-versions",
        ClusterService.spark_versions,
        "Available runtimes",
        needs=IN_WORKSPACE,
        response=view.GetSparkVersionsResponse,
    ),
)
