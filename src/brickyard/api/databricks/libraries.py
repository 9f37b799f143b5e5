"""The Libraries API: 4 calls."""

from __future__ import annotations

from brickyard.api.edge.group import CAN_ATTACH, CAN_MANAGE, Group, on_cluster
from brickyard.api.edge.registry import EVERY, Operation
from brickyard.domain import libraries
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.requests import ClusterId
from brickyard.features.libraries.service import LibraryService


async def _cluster_status(service: LibraryService, caller: Caller, request: ClusterId) -> libraries.ClusterLibraryStatuses:
    found: libraries.ClusterLibraryStatuses = await service.cluster_status(caller, request.cluster_id)
    return found


_LIBRARIES = Group("libraries", lambda ctx: ctx.services.libraries, "/api/2.0/libraries")
OPERATIONS: tuple[Operation, ...] = (
    _LIBRARIES(
        "POST /install",
        LibraryService.install,
        "Install libraries on a cluster, now if it runs and at every start",
        needs=CAN_MANAGE,
        makes_work=True,
    ),
    _LIBRARIES(
        "POST /uninstall",
        LibraryService.uninstall,
        "Uninstall libraries from a cluster when it starts again",
        needs=CAN_MANAGE,
        makes_work=True,
    ),
    _LIBRARIES("GET /cluster-status", _cluster_status, "The statuses of a cluster's libraries", needs=CAN_ATTACH),
    _LIBRARIES(
        "GET /all-cluster-statuses",
        LibraryService.all_cluster_statuses,
        "The statuses of the libraries of all clusters",
        needs=on_cluster(Permission.CAN_ATTACH_TO, EVERY),
    ),
)
