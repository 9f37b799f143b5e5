"""The Clusters API's calls: each becomes desired state and an event in one transaction.

None of them waits for a machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.clusters.catalogue import Offers
from brickyard.clusters.commands import ClusterCommands, LibraryChange
from brickyard.clusters.compliance import ClusterCompliances
from brickyard.clusters.reads import ClusterReads
from brickyard.clusters.validation import ClusterValidations, NamedFiles
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.nodetypes import NodeTypes
from brickyard.domain.policies import (
    Compliance,
    EnforceCompliance,
    EnforceComplianceResponse,
    ListCompliance,
    ListComplianceResponse,
)
from brickyard.domain.requests import (
    ChangeClusterOwner,
    ClusterId,
    CreateCluster,
    EditCluster,
    GetEvents,
    ListClusters,
    ResizeCluster,
    RestartCluster,
    StartCluster,
    UpdateCluster,
)
from brickyard.domain.runtimes import Runtime
from brickyard.domain.validation import ClusterValidation, PolicyTrial, TryPolicy
from brickyard.domain.views import GetEventsResponse
from brickyard.domain.wakeups import Wake
from brickyard.plan.policy import DEFAULT_MAX_NODES
from brickyard.store.store import Store
from brickyard.store.tx import Tx

Request = TypeVar("Request", bound=ClusterId | EditCluster | UpdateCluster)


class ClusterService:
    """One per server. Methods raise ApiError. Bytes are JSON."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        node_types: NodeTypes,
        runtimes: Iterable[Runtime],
        authorizer: Authorizer,
        wake: Wake[str],
        photon: bool = False,
        max_nodes: int = DEFAULT_MAX_NODES,
        currency: str = "USD",
        files: NamedFiles | None = None,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._wake = wake
        self.offers = Offers(node_types=node_types, runtimes=runtimes, max_nodes=max_nodes)
        self._reads = ClusterReads(store=store, clock=clock, offers=self.offers, authorizer=authorizer)
        self.commands = ClusterCommands(clock=clock, ids=ids, offers=self.offers, authorizer=authorizer, photon=photon)
        self.warehouse_commands = ClusterCommands(
            clock=clock, ids=ids, offers=self.offers, authorizer=authorizer, photon=photon, of_warehouses=True
        )
        self._validations = ClusterValidations(
            store=store, commands=self.commands, authorizer=authorizer, currency=currency, files=files
        )
        self._compliances = ClusterCompliances(commands=self.commands, offers=self.offers, authorizer=authorizer)

    # -- reading -----------------------------------------------------------------------------------------------------

    async def get(self, caller: Caller, cluster_id: str) -> bytes:
        """One cluster."""
        return await self._reads.get(caller, cluster_id)

    async def list(self, caller: Caller, request: ListClusters, *, paged: bool) -> bytes:
        """Clusters: one page, or all of them for clients that do not paginate."""
        return await self._reads.list(caller, request, paged=paged)

    async def events(self, caller: Caller, request: GetEvents) -> GetEventsResponse:
        """A cluster's events."""
        return await self._reads.events(caller, request)

    async def list_node_types(self, caller: Caller) -> bytes:
        """The node types."""
        await self._may_look(caller, to="list the node types of the")
        return self.offers.node_type_list()

    async def list_zones(self, caller: Caller) -> bytes:
        """The zones. All of them are this workspace's machines."""
        await self._may_look(caller, to="list the zones of the")
        return self.offers.zone_list

    async def spark_versions(self, caller: Caller) -> bytes:
        """The runtimes."""
        await self._may_look(caller, to="list the runtimes of the")
        return self.offers.spark_version_list

    async def compliance(self, caller: Caller, cluster_id: str) -> Compliance:
        """Whether a cluster complies with its policy."""
        return await self._store.read(lambda tx: self._compliances.of_cluster(tx, caller, cluster_id))

    async def list_compliance(self, caller: Caller, request: ListCompliance) -> ListComplianceResponse:
        """Whether the clusters of a policy comply with it: one page."""
        return await self._store.read(lambda tx: self._compliances.of_policy(tx, caller, request))

    # -- changing ----------------------------------------------------------------------------------------------------

    async def create(self, caller: Caller, request: CreateCluster) -> str:
        """Creates a cluster, which starts, and returns its id. If an active cluster has the idempotency token, returns its id."""
        created = await self._store.write(
            lambda tx: self.commands.create(tx, caller, request).cluster_id, inserts=self.commands.only_inserts(request)
        )
        self.changed(created)
        return created

    async def validate_create(self, caller: Caller, request: CreateCluster) -> ClusterValidation:
        """What `create` would do; creates nothing."""
        return await self._validations.create(caller, request)

    async def validate_edit(self, caller: Caller, request: EditCluster) -> ClusterValidation:
        """What `edit` would do; changes nothing."""
        return await self._validations.edit(caller, request)

    async def try_policy(self, caller: Caller, request: TryPolicy) -> PolicyTrial:
        """What `create` would do under a policy that is not saved; saves and creates nothing."""
        return await self._validations.try_policy(caller, request)

    async def start(self, caller: Caller, request: StartCluster) -> None:
        """Starts a terminated cluster at its last size."""
        await self._do(self.commands.start, caller, request)

    async def restart(self, caller: Caller, request: RestartCluster) -> None:
        """Restarts a running cluster."""
        await self._do(self.commands.restart, caller, request)

    async def delete(self, caller: Caller, request: ClusterId) -> None:
        """Terminates a cluster."""
        await self._do(self.commands.delete, caller, request)

    async def permanent_delete(self, caller: Caller, request: ClusterId) -> None:
        """Removes a cluster for good."""
        await self._do(self.commands.permanent_delete, caller, request)

    async def edit(self, caller: Caller, request: EditCluster) -> None:
        """Replaces the specification."""
        await self._do(self.commands.edit, caller, request)

    async def update(self, caller: Caller, request: UpdateCluster) -> None:
        """Replaces parts of the specification."""
        await self._do(self.commands.update, caller, request)

    async def resize(self, caller: Caller, request: ResizeCluster) -> None:
        """Changes the size of a running cluster."""
        await self._do(self.commands.resize, caller, request)

    async def pin(self, caller: Caller, request: ClusterId) -> None:
        """Keeps a cluster in the list no matter how long ago it was terminated."""
        await self._do(self.commands.pin, caller, request)

    async def unpin(self, caller: Caller, request: ClusterId) -> None:
        """Undoes a pin."""
        await self._do(self.commands.unpin, caller, request)

    async def change_owner(self, caller: Caller, request: ChangeClusterOwner) -> None:
        """Gives a terminated cluster to another user."""
        await self._do(self.commands.change_owner, caller, request)

    async def enforce_compliance(self, caller: Caller, request: EnforceCompliance) -> EnforceComplianceResponse:
        """Edits a cluster so that it complies with its policy."""
        woken, told = await self._store.write(lambda tx: self._compliances.enforce(tx, caller, request))
        if woken:
            self.changed(request.cluster_id)
        return told

    async def cancel_enforcement(self, caller: Caller, cluster_id: str, *, allow_missing: bool) -> None:
        """Cancels an enforcement that waits for the cluster's termination."""
        await self._store.write(lambda tx: self.commands.cancel_enforcement(tx, caller, cluster_id, allow_missing=allow_missing))

    async def change_libraries(self, caller: Caller, cluster_id: str, change: LibraryChange, *, to: str) -> None:
        """Adds or removes libraries."""
        if await self._store.write(lambda tx: self.commands.change_libraries(tx, caller, cluster_id, change, to=to)):
            self.changed(cluster_id)

    async def end_all(self, why: str, *, limit_s: float, staying: frozenset[str] = frozenset()) -> None:
        """Terminates all running clusters: the server is about to stop and end all nodes, except those of providers that are
        `staying`. `why`, a phrase, is the reason. Raises TimeoutError once a commit of some of them takes longer than
        `limit_s`."""
        last = await self._end_some(why, "", staying, limit_s)
        while last:
            last = await self._end_some(why, last, staying, limit_s)

    async def _end_some(self, why: str, after: str, staying: frozenset[str], limit_s: float) -> str:
        async with asyncio.timeout(limit_s):
            return await self._store.write(lambda tx: self.commands.end_some(tx, why, after=after, staying=staying))

    async def _may_look(self, caller: Caller, *, to: str) -> None:
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to=to))

    async def _do(self, command: Callable[[Tx, Caller, Request], bool], caller: Caller, request: Request) -> None:
        """Runs one command in a separate transaction."""
        if await self._store.write(lambda tx: command(tx, caller, request)):
            self.changed(request.cluster_id)

    def changed(self, cluster_id: str) -> None:
        """Call this after a commit of `commands` that changed the cluster: its loop is due."""
        self._reads.changed(cluster_id)
        self._wake(cluster_id)
