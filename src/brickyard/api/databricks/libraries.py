"""The Libraries API: 4 calls."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import EVERY, Empty, Need, Operation
from brickyard.domain import libraries
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.requests import ClusterId
from brickyard.services.caller import Caller


async def _install(ctx: ApiContext, caller: Caller, request: libraries.InstallLibraries) -> None:
    await ctx.services.libraries.install(caller, request)


async def _uninstall(ctx: ApiContext, caller: Caller, request: libraries.UninstallLibraries) -> None:
    await ctx.services.libraries.uninstall(caller, request)


async def _cluster_status(ctx: ApiContext, caller: Caller, request: ClusterId) -> libraries.ClusterLibraryStatuses:
    found: libraries.ClusterLibraryStatuses = await ctx.services.libraries.cluster_status(caller, request.cluster_id)
    return found


async def _all(ctx: ApiContext, caller: Caller, request: Empty) -> libraries.ListAllClusterLibraryStatusesResponse:
    found: libraries.ListAllClusterLibraryStatusesResponse = await ctx.services.libraries.all_cluster_statuses(caller)
    return found


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="libraries.install",
        method="POST",
        paths=("/api/2.0/libraries/install",),
        handler=_install,
        request=libraries.InstallLibraries,
        summary="Install libraries on a cluster, now if it runs and at every start",
        needs=(Need(Permission.CAN_MANAGE, ObjectKind.CLUSTER, "cluster_id"),),
        makes_work=True,
    ),
    Operation(
        name="libraries.uninstall",
        method="POST",
        paths=("/api/2.0/libraries/uninstall",),
        handler=_uninstall,
        request=libraries.UninstallLibraries,
        summary="Uninstall libraries from a cluster when it starts again",
        needs=(Need(Permission.CAN_MANAGE, ObjectKind.CLUSTER, "cluster_id"),),
        makes_work=True,
    ),
    Operation(
        name="libraries.cluster_status",
        method="GET",
        paths=("/api/2.0/libraries/cluster-status",),
        handler=_cluster_status,
        request=ClusterId,
        response=libraries.ClusterLibraryStatuses,
        summary="The statuses of a cluster's libraries",
        needs=(Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, "cluster_id"),),
    ),
    Operation(
        name="libraries.all_cluster_statuses",
        method="GET",
        paths=("/api/2.0/libraries/all-cluster-statuses",),
        handler=_all,
        response=libraries.ListAllClusterLibraryStatusesResponse,
        summary="The statuses of the libraries of all clusters",
        needs=(Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, EVERY),),
    ),
)
