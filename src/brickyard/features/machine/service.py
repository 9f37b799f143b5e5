"""What the providers have, and who has taken it: for administrators."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.clusters.catalogue import Offers
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Instance
from brickyard.domain.decoding import converter
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import Capacity
from brickyard.providers.fleet import Providers
from brickyard.reconcile.instances import InstanceMonitor
from brickyard.reconcile.room import DiskRoom
from brickyard.store.membership import Members, addresses
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Cores are logical, memory is MiB."""

    cores_total: float
    cores_left: float
    memory_mb_total: int
    memory_mb_left: int


_to_room = converter(Room, from_attributes=True)


class DiskSpace(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes: of the storage's disk, and of what the workspace's files may take of it. Inodes: 0 if the disk makes them as
    needed."""

    total: int
    free: int
    inodes_total: int
    inodes_free: int
    files_used: int
    files_limit: int


class MachineNode(msgspec.Struct, frozen=True, kw_only=True):
    """One instance. Times are epoch ms; `cluster_id` and `instance_pool_id` are empty where it is in none."""

    instance_id: str
    provider: str
    node_type_id: str
    cores: float
    memory_mb: int
    gpus: int
    spot: bool
    state: str
    role: str
    isolation: str  # as its agent has found: "namespaces", "bubblewrap", or "none: <why>"; empty until it has
    created_ms: int
    cluster_id: str
    cluster_name: str
    creator_user_name: str
    instance_pool_id: str
    instance_pool_name: str


class HiddenNodeType(msgspec.Struct, frozen=True, kw_only=True):
    """A node type that a provider offers in vain, because a provider that is named earlier in the settings has one of that id."""

    node_type_id: str
    provider: str


class ProviderView(msgspec.Struct, frozen=True, kw_only=True):
    """One provider. `room` is missing where it does not know it. `configured` is false where nodes are recorded with a provider
    that is no longer in the settings: they go on until they are no longer wanted, and nobody but their agents ends them."""

    name: str
    where: str  # here, elsewhere or nowhere
    configured: bool
    node_types: int
    hidden_node_types: list[HiddenNodeType]
    nodes: int
    room: Room | None
    trouble: str  # why it cannot be asked for its instances now; empty if it can, or if another server asks


class MachineView(msgspec.Struct, frozen=True, kw_only=True):
    """`provider` and `room` are those of the default provider, which is also the first of `providers`."""

    provider: str
    servers: int
    room: Room | None
    disk: DiskSpace
    providers: list[ProviderView]
    nodes: list[MachineNode]


class MachineService:
    """One per server."""

    def __init__(
        self,
        *,
        store: Store,
        authorizer: Authorizer,
        providers: Providers,
        offers: Offers,
        room: DiskRoom,
        monitor: InstanceMonitor,
        members: Members,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._providers = providers
        self._offers = offers
        self._room = room
        self._monitor = monitor
        self._members = members

    async def get(self, caller: Caller) -> MachineView:
        """Raises PermissionDenied."""
        types, default = self._offers.node_types(), self._providers.default.name

        def work(tx: Tx) -> list[MachineNode]:
            self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="see the nodes of the")
            instances = tx.instances.many(tx.instances.states())
            return sorted(_nodes(tx, instances, types, default), key=lambda each: (each.cluster_id, each.created_ms))

        nodes = await self._store.read(work)
        providers = await asyncio.to_thread(self._views, types, nodes)  # a provider may ask others for its room
        return MachineView(
            provider=default,
            servers=len(addresses(self._members)),
            room=providers[0].room,
            disk=_disk_space(self._room),
            providers=providers,
            nodes=nodes,
        )

    def _views(self, types: Mapping[str, NodeType], nodes: Sequence[MachineNode]) -> list[ProviderView]:
        """The providers in the settings, in their order, and then those that only nodes name."""
        offered, held = Counter(each.provider for each in types.values()), Counter(each.provider for each in nodes)
        hidden, troubles = self._providers.offered().hidden, self._monitor.troubles
        found = [
            ProviderView(
                name=each.name,
                where=each.where,
                configured=True,
                node_types=offered[each.name],
                hidden_node_types=[
                    HiddenNodeType(node_type_id=name, provider=by) for name, by in hidden.get(each.name, {}).items()
                ],
                nodes=held[each.name],
                room=_room(each.capacity()),
                trouble=troubles.get(each.name, ""),
            )
            for each in self._providers
        ]
        gone = sorted(held.keys() - set(self._providers.names))
        return found + [
            ProviderView(
                name=name, where="", configured=False, node_types=0, hidden_node_types=[], nodes=held[name], room=None, trouble=""
            )
            for name in gone
        ]


def _disk_space(room: DiskRoom) -> DiskSpace:
    disk = room.disk()
    return DiskSpace(
        total=disk.total.size,
        free=disk.free.size,
        inodes_total=disk.total.inodes,
        inodes_free=disk.free.inodes,
        files_used=room.dbfs_used.size,
        files_limit=room.dbfs_limit,
    )


def _room(known: Capacity | None) -> Room | None:
    return None if known is None else _to_room(known)


def _nodes(tx: Tx, instances: list[Instance], types: Mapping[str, NodeType], provider: str) -> list[MachineNode]:
    clusters = tx.clusters.many({each.cluster_id for each in instances if each.cluster_id})
    pools = tx.pools.many({each.pool_id for each in instances if each.pool_id})
    found = []
    for each in instances:
        kind, cluster, pool = types.get(each.node_type_id), clusters.get(each.cluster_id), pools.get(each.pool_id)
        found.append(
            MachineNode(
                instance_id=each.instance_id,
                provider=each.provider or provider,
                node_type_id=each.node_type_id,
                cores=kind.num_cores if kind else 0.0,
                memory_mb=kind.memory_mb if kind else 0,
                gpus=kind.num_gpus if kind else 0,
                spot=each.spot,
                state=each.state.value,
                role=each.role.value,
                isolation=each.status.isolation,
                created_ms=each.created_ms,
                cluster_id=each.cluster_id,
                cluster_name=cluster.spec.cluster_name or "" if cluster else "",
                creator_user_name=cluster.creator_user_name if cluster else "",
                instance_pool_id=each.pool_id,
                instance_pool_name=pool.spec.instance_pool_name if pool else "",
            )
        )
    return found
