"""The Clusters API: 17 calls under 2.1, and under 2.0 for older clients."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.api.context import ApiContext
from brickyard.api.databricks.dialects import CLUSTERS
from brickyard.api.edge.decode import Unread
from brickyard.api.edge.registry import EVERY, Empty, Handler, Need, Operation
from brickyard.domain import requests as ask
from brickyard.domain import views as view
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.validation import ClusterValidation, FieldError
from brickyard.services.caller import Caller


async def _create(ctx: ApiContext, caller: Caller, request: ask.CreateCluster) -> view.CreateClusterResponse | ClusterValidation:
    if request.validate_only:
        return await ctx.services.clusters.validate_create(caller, request)
    return view.CreateClusterResponse(cluster_id=await ctx.services.clusters.create(caller, request))


def _unread(verdict: ClusterValidation, unread: Sequence[Unread]) -> ClusterValidation:
    """The verdict on a specification of which some fields could not be decoded, and were left out."""
    left_out = {_top(each.field) for each in unread}
    errors = [FieldError(field=each.field, message=each.message) for each in unread]
    errors += [each for each in verdict.errors if _top(each.field) not in left_out]
    return ClusterValidation(valid=False, errors=errors, locks=verdict.locks)


def _top(path: str) -> str:
    return path.replace("[", ".").partition(".")[0]


async def _get(ctx: ApiContext, caller: Caller, request: ask.ClusterId) -> bytes:
    return await ctx.services.clusters.get(caller, request.cluster_id)


async def _list(ctx: ApiContext, caller: Caller, request: ask.ListClusters) -> bytes:
    return await ctx.services.clusters.list(caller, request, paged=True)


async def _list_all(ctx: ApiContext, caller: Caller, request: ask.ListClusters) -> bytes:
    return await ctx.services.clusters.list(caller, request, paged=False)


async def _start(ctx: ApiContext, caller: Caller, request: ask.StartCluster) -> None:
    await ctx.services.clusters.start(caller, request)


async def _restart(ctx: ApiContext, caller: Caller, request: ask.RestartCluster) -> None:
    await ctx.services.clusters.restart(caller, request)


async def _delete(ctx: ApiContext, caller: Caller, request: ask.ClusterId) -> None:
    await ctx.services.clusters.delete(caller, request)


async def _permanent_delete(ctx: ApiContext, caller: Caller, request: ask.ClusterId) -> None:
    await ctx.services.clusters.permanent_delete(caller, request)


async def _edit(ctx: ApiContext, caller: Caller, request: ask.EditCluster) -> ClusterValidation | None:
    if request.validate_only:
        return await ctx.services.clusters.validate_edit(caller, request)
    await ctx.services.clusters.edit(caller, request)
    return None


async def _update(ctx: ApiContext, caller: Caller, request: ask.UpdateCluster) -> None:
    await ctx.services.clusters.update(caller, request)


async def _resize(ctx: ApiContext, caller: Caller, request: ask.ResizeCluster) -> None:
    await ctx.services.clusters.resize(caller, request)


async def _pin(ctx: ApiContext, caller: Caller, request: ask.ClusterId) -> None:
    await ctx.services.clusters.pin(caller, request)


async def _unpin(ctx: ApiContext, caller: Caller, request: ask.ClusterId) -> None:
    await ctx.services.clusters.unpin(caller, request)


async def _change_owner(ctx: ApiContext, caller: Caller, request: ask.ChangeClusterOwner) -> None:
    await ctx.services.clusters.change_owner(caller, request)


async def _events(ctx: ApiContext, caller: Caller, request: ask.GetEvents) -> view.GetEventsResponse:
    return await ctx.services.clusters.events(caller, request)


async def _list_node_types(ctx: ApiContext, caller: Caller, request: Empty) -> bytes:
    return await ctx.services.clusters.list_node_types(caller)


async def _list_zones(ctx: ApiContext, caller: Caller, request: Empty) -> bytes:
    return await ctx.services.clusters.list_zones(caller)


async def _spark_versions(ctx: ApiContext, caller: Caller, request: Empty) -> bytes:
    return await ctx.services.clusters.spark_versions(caller)


def _cluster(permission: Permission, of: str = "cluster_id") -> Need:
    return Need(permission, ObjectKind.CLUSTER, of)


def _named(where: str = "") -> tuple[Need, ...]:
    """The permissions for the pools and the policy that a specification names."""
    return (
        Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, f"{where}instance_pool_id"),
        Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, f"{where}driver_instance_pool_id"),
        Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, f"{where}policy_id"),
    )


_LOOK = (Need(Permission.WORKSPACE_ACCESS, ObjectKind.WORKSPACE),)
_NEEDS: dict[str, tuple[Need, ...]] = {
    "create": (
        Need(Permission.ALLOW_CLUSTER_CREATE, ObjectKind.WORKSPACE, unless="policy_id"),
        *_named(),
        _cluster(Permission.CAN_ATTACH_TO, "clone_from.source_cluster_id"),
    ),
    "get": (_cluster(Permission.CAN_ATTACH_TO),),
    "list": (_cluster(Permission.CAN_ATTACH_TO, EVERY),),
    "start": (_cluster(Permission.CAN_RESTART),),
    "restart": (_cluster(Permission.CAN_RESTART),),
    "delete": (_cluster(Permission.CAN_RESTART),),
    "permanent-delete": (_cluster(Permission.CAN_MANAGE),),
    "edit": (_cluster(Permission.CAN_MANAGE), *_named()),
    "update": (_cluster(Permission.CAN_MANAGE), *_named("cluster.")),
    "resize": (_cluster(Permission.CAN_MANAGE),),
    "pin": (_cluster(Permission.ADMIN),),
    "unpin": (_cluster(Permission.ADMIN),),
    "change-owner": (_cluster(Permission.ADMIN),),
    "events": (_cluster(Permission.CAN_ATTACH_TO),),
    "list-node-types": _LOOK,
    "list-zones": _LOOK,
    "spark-versions": _LOOK,
}

_ERRORS = {"create": (404,), "edit": (409,)}  # a policy that it names; expected_spec


def _operation(
    verb: str,
    method: str,
    handler: Handler,
    summary: str,
    *,
    request: type = Empty,
    response: type | None = None,
    versions: tuple[str, ...] = ("2.1", "2.0"),
    name: str = "",
    only_reads: bool = False,
) -> Operation:
    return Operation(
        name=f"clusters.{name or verb.replace('-', '_')}",
        method=method,
        paths=tuple(f"/api/{version}/clusters/{verb}" for version in versions),
        handler=handler,
        request=request,
        response=response,
        validation=ClusterValidation if verb in ("create", "edit") else None,
        unread=_unread if verb in ("create", "edit") else None,
        errors=_ERRORS.get(verb, ()),
        summary=summary,
        needs=_NEEDS[verb],
        dialect=CLUSTERS,
        makes_work=verb in ("create", "start", "restart", "edit", "update", "resize"),
        only_reads=only_reads,
    )


OPERATIONS: tuple[Operation, ...] = (
    _operation(
        "create",
        "POST",
        _create,
        "Create a cluster and start it; answers before it runs",
        request=ask.CreateCluster,
        response=view.CreateClusterResponse,
    ),
    _operation("get", "GET", _get, "One cluster", request=ask.ClusterId, response=view.ClusterDetails),
    _operation(
        "list",
        "GET",
        _list,
        "Clusters, page by page",
        request=ask.ListClusters,
        response=view.ListClustersResponse,
        versions=("2.1",),
    ),
    # Clients of 2.0 never request a second page.
    _operation(
        "list",
        "GET",
        _list_all,
        "All clusters in one answer",
        request=ask.ListClusters,
        response=view.ListClustersResponse,
        versions=("2.0",),
        name="list_all",
    ),
    _operation("start", "POST", _start, "Start a terminated cluster", request=ask.StartCluster),
    _operation("restart", "POST", _restart, "Restart a running cluster", request=ask.RestartCluster),
    _operation("delete", "POST", _delete, "Terminate a cluster; it can be started again", request=ask.ClusterId),
    _operation("permanent-delete", "POST", _permanent_delete, "Remove a cluster for good", request=ask.ClusterId),
    _operation("edit", "POST", _edit, "Replace a cluster's specification", request=ask.EditCluster),
    _operation("update", "POST", _update, "Change parts of a cluster's specification", request=ask.UpdateCluster),
    _operation("resize", "POST", _resize, "Change a running cluster's number of workers", request=ask.ResizeCluster),
    _operation("pin", "POST", _pin, "Keep a terminated cluster in the list", request=ask.ClusterId),
    _operation("unpin", "POST", _unpin, "Undo a pin", request=ask.ClusterId),
    _operation("change-owner", "POST", _change_owner, "Change the owner of a terminated cluster", request=ask.ChangeClusterOwner),
    _operation(
        "events",
        "POST",
        _events,
        "A cluster's events",
        request=ask.GetEvents,
        response=view.GetEventsResponse,
        only_reads=True,
    ),
    _operation("list-node-types", "GET", _list_node_types, "Available node types", response=view.ListNodeTypesResponse),
    _operation("list-zones", "GET", _list_zones, "Available zones", response=view.ListAvailableZonesResponse),
    _operation("spark-versions", "GET", _spark_versions, "Available runtimes", response=view.GetSparkVersionsResponse),
)
