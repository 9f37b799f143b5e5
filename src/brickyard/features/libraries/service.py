"""The Libraries API's calls."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters import ClusterService
from brickyard.clusters.missing import known_cluster
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.libraries import (
    ClusterLibraryStatuses,
    InstallLibraries,
    ListAllClusterLibraryStatusesResponse,
    UninstallLibraries,
)
from brickyard.domain.policies import PolicyRow
from brickyard.plan import libraries
from brickyard.plan.changes import Changed
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class LibraryService:
    """One per server. Methods raise ApiError. Installing and uninstalling only write what is wanted; nodes do it later."""

    def __init__(self, *, store: Store, authorizer: Authorizer, clusters: ClusterService) -> None:
        self._store = store
        self._authorizer = authorizer
        self._clusters = clusters

    async def install(self, caller: Caller, request: InstallLibraries) -> None:
        """Adds libraries to a cluster. One that has failed is tried again."""

        def change(cluster: Cluster, nodes: Sequence[Instance], policy: PolicyRow | None) -> Changed:
            return libraries.install(cluster, request.libraries, nodes, policy)

        await self._clusters.change_libraries(caller, request.cluster_id, change, to="install libraries on")

    async def uninstall(self, caller: Caller, request: UninstallLibraries) -> None:
        """Removes libraries from a cluster when it starts again."""

        def change(cluster: Cluster, _nodes: Sequence[Instance], policy: PolicyRow | None) -> Changed:
            return libraries.uninstall(cluster, request.libraries, policy)

        await self._clusters.change_libraries(caller, request.cluster_id, change, to="uninstall libraries from")

    async def cluster_status(self, caller: Caller, cluster_id: str) -> ClusterLibraryStatuses:
        """The statuses of one cluster's libraries."""

        def read(tx: Tx) -> ClusterLibraryStatuses:
            cluster = known_cluster(tx, cluster_id)
            self._authorizer.require(tx, caller, Permission.CAN_ATTACH_TO, of_cluster(cluster), to="see the libraries of")
            found = libraries.statuses(cluster, list(tx.instances.of_cluster(cluster_id)), by_node=True)
            return ClusterLibraryStatuses(cluster_id=cluster_id, library_statuses=found)

        return await self._store.read(read)

    async def all_cluster_statuses(self, caller: Caller) -> ListAllClusterLibraryStatusesResponse:
        """The statuses of the libraries of every cluster that has any."""

        def read(tx: Tx) -> ListAllClusterLibraryStatusesResponse:
            found = tx.clusters.with_libraries(self._authorizer.visible(tx, caller, ObjectKind.CLUSTER))
            nodes = tx.instances.of_clusters(each.cluster_id for each in found)
            return ListAllClusterLibraryStatusesResponse(
                statuses=[
                    ClusterLibraryStatuses(
                        cluster_id=each.cluster_id, library_statuses=libraries.statuses(each, nodes.get(each.cluster_id, []))
                    )
                    for each in found
                ]
            )

        return await self._store.read(read)
