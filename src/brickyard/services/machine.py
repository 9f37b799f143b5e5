"""What the provider has, and who has taken it: for administrators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from brickyard.domain.access import Permission
from brickyard.domain.cluster import Instance
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import Provider
from brickyard.services.access import Authorizer
from brickyard.services.access.objects import WORKSPACE
from brickyard.services.caller import Caller
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Cores are logical, memory is MiB."""

    cores_total: float
    cores_left: float
    memory_mb_total: int
    memory_mb_left: int


class DiskSpace(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes: of the storage's disk, and of what the workspace's files may take of it."""

    total: int
    free: int
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
    created_ms: int
    cluster_id: str
    cluster_name: str
    creator_user_name: str
    instance_pool_id: str
    instance_pool_name: str


class MachineView(msgspec.Struct, frozen=True, kw_only=True):
    """`room` is missing where the provider does not know it."""

    provider: str
    servers: int
    room: Room | None
    disk: DiskSpace
    nodes: list[MachineNode]


class MachineService:
    """One per server. `disk` is total, free, used and allowed bytes."""

    def __init__(
        self,
        *,
        store: Store,
        authorizer: Authorizer,
        provider: Provider,
        node_types: Callable[[], Mapping[str, NodeType]],
        disk: Callable[[], DiskSpace],
        servers: Callable[[], int],
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._provider = provider
        self._node_types = node_types
        self._disk = disk
        self._servers = servers

    async def get(self, caller: Caller) -> MachineView:
        """Raises PermissionDenied."""
        types = self._node_types()

        def work(tx: Tx) -> list[MachineNode]:
            self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="see the nodes of the")
            instances = tx.instances.many(tx.instances.states())
            return sorted(_nodes(tx, instances, types, self._provider.name), key=lambda each: (each.cluster_id, each.created_ms))

        nodes = await self._store.read(work)
        known = self._provider.capacity()
        room = None if known is None else msgspec.convert(known, Room, from_attributes=True)
        return MachineView(provider=self._provider.name, servers=self._servers(), room=room, disk=self._disk(), nodes=nodes)


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
                created_ms=each.created_ms,
                cluster_id=each.cluster_id,
                cluster_name=cluster.spec.cluster_name or "" if cluster else "",
                creator_user_name=cluster.creator_user_name if cluster else "",
                instance_pool_id=each.pool_id,
                instance_pool_name=pool.spec.instance_pool_name if pool else "",
            )
        )
    return found
