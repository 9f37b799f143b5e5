"""The SQL Warehouses API's calls. A warehouse is a cluster, so each change is one transaction on one row: the cluster's loop does
the rest, whatever is killed in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE, of_cluster
from brickyard.clusters import ClusterService
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import ApiError, InvalidParameterValue, InvalidState, ResourceDoesNotExist
from brickyard.domain.requests import ClusterId, CreateCluster, EditCluster, StartCluster
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import ClusterSource
from brickyard.domain.warehouses import Compute
from brickyard.features.warehouses.model import (
    ChangeWarehouseConfig,
    Channel,
    CreateWarehouse,
    DataSource,
    EditWarehouse,
    ListWarehouses,
    OdbcParams,
    WarehouseConfig,
    WarehouseConfigView,
    WarehouseId,
    WarehouseList,
    WarehouseState,
    WarehouseView,
)
from brickyard.features.warehouses.rules import (
    Offered,
    configured,
    health_of,
    state_of,
    tags_of,
    usual_node_type,
    wanted,
    with_config,
)
from brickyard.plan.liveedit import with_warehouse
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PAGE = 100
MOST_PAGE = 1_000
COUNT_S = 2.0  # for the answer of a driver that is asked for its sessions
_CONFIG = "conf:warehouses"  # key in `meta`
_decode_config = msgspec.json.Decoder(WarehouseConfig).decode
_SHOWN = 64


class Sessions(Protocol):
    """Who uses a cluster. Implemented by `AttachService`."""

    async def session_count(self, cluster_id: str) -> int:
        """How many Spark Connect sessions a cluster has. Checks no permission. Raises ApiError."""
        ...


class WarehouseService:
    """One per server. Methods raise ApiError. `photon`: whether Photon is accepted; `node_type`: what warehouses get unless they
    name another one."""

    def __init__(
        self,
        *,
        store: Store,
        authorizer: Authorizer,
        clusters: ClusterService,
        sessions: Sessions,
        node_type: str = "",
        photon: bool = False,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._clusters = clusters
        self._commands = clusters.warehouse_commands
        self._sessions = sessions
        self._node_type = node_type
        self._photon = photon

    # --- changing ---

    async def create(self, caller: Caller, request: CreateWarehouse) -> str:
        """Creates a warehouse, which starts, and returns its id."""

        def work(tx: Tx) -> str:
            new = wanted(request, config(tx), self._offered())
            _take_name(tx, new.spec)
            asked = CreateCluster(**_fields(new.spec))
            return self._commands.create(tx, caller, asked, warehouse=new.warehouse).cluster_id

        created = await self._store.write(work)
        self._clusters.changed(created)
        return created

    async def edit(self, caller: Caller, request: EditWarehouse) -> None:
        """Changes what the request names. A running warehouse restarts, unless only its name, tags or idle time change."""

        def work(tx: Tx) -> None:
            before = self._find(tx, caller, request.id, Permission.CAN_MANAGE, to="edit")
            if state_of(before) not in (WarehouseState.RUNNING, WarehouseState.STOPPED):
                raise InvalidState(f"SQL warehouse {request.id} is {state_of(before).value}. Edit it once it runs or is stopped.")
            new = wanted(request, config(tx), self._offered(), before=before)
            if new.spec.cluster_name != before.spec.cluster_name:
                _take_name(tx, new.spec)
            if new.spec != before.request:
                self._commands.edit(tx, caller, EditCluster(cluster_id=request.id, **_fields(new.spec)))
            after = _existing(tx, request.id)
            if new.warehouse != after.warehouse:
                tx.clusters.update(with_warehouse(after, new.warehouse))

        await self._change(request.id, work)

    async def start(self, caller: Caller, request: WarehouseId) -> None:
        """Starts a stopped warehouse; one that runs or starts stays as it is."""

        def work(tx: Tx) -> None:
            found = self._find(tx, caller, request.id, Permission.CAN_USE, to="start")
            if state_of(found) not in (WarehouseState.RUNNING, WarehouseState.STARTING):
                self._commands.start(tx, caller, StartCluster(cluster_id=request.id))

        await self._change(request.id, work)

    async def stop(self, caller: Caller, request: WarehouseId) -> None:
        """Stops a warehouse; one that is stopped stays so."""

        def work(tx: Tx) -> None:
            _existing(tx, request.id)
            self._commands.delete(tx, caller, ClusterId(cluster_id=request.id))

        await self._change(request.id, work)

    async def delete(self, caller: Caller, request: WarehouseId) -> None:
        """Deletes a warehouse and its cluster: no call finds it any more, and its nodes end in the background."""

        def work(tx: Tx) -> None:
            _existing(tx, request.id)
            self._commands.permanent_delete(tx, caller, ClusterId(cluster_id=request.id))

        await self._change(request.id, work)

    async def configure(self, caller: Caller, request: ChangeWarehouseConfig) -> None:
        """Sets what all warehouses have. Those that run restart if Spark's settings change; while one starts or stops, nothing
        changes."""

        def work(tx: Tx) -> Sequence[str]:
            self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="configure the SQL warehouses of the")
            tx.lock("warehouses")
            new = configured(request)
            changed: list[str] = []
            for each in tx.clusters.warehouses():
                spec = with_config(each, new)
                if spec == each.request:
                    continue
                if state_of(each) not in (WarehouseState.RUNNING, WarehouseState.STOPPED):
                    raise InvalidState(f"SQL warehouse {each.cluster_id} is {state_of(each).value}. Try again in a moment.")
                self._commands.edit(tx, caller, EditCluster(cluster_id=each.cluster_id, **_fields(spec)))
                changed.append(each.cluster_id)
            tx.set_meta(_CONFIG, msgspec.json.encode(new).decode())
            return changed

        for each in await self._store.write(work):
            self._clusters.changed(each)

    # --- reading ---

    async def get(self, caller: Caller, request: WarehouseId) -> WarehouseView:
        """One warehouse."""
        found = await self._store.read(lambda tx: self._find(tx, caller, request.id, Permission.CAN_VIEW, to="see"))
        return (await self._views([found], request.base_url))[0]

    async def list(self, caller: Caller, request: ListWarehouses) -> WarehouseList:
        """The warehouses that the caller may see, oldest first: one page."""
        size = PAGE if request.page_size is None else request.page_size
        if not 1 <= size <= MOST_PAGE:
            raise InvalidParameterValue(f"page_size is {size}; it must be between 1 and {MOST_PAGE}.")
        found = await self._shown(caller, None if request.run_as_user_id is None else str(request.run_as_user_id))
        after = next((at for at, each in enumerate(found, start=1) if each.cluster_id == request.page_token), None)
        if request.page_token and after is None:
            raise InvalidParameterValue("page_token is not valid any more. Omit it to get the first page.")
        page, rest = found[after or 0 :][:size], found[after or 0 :][size:]
        views = await self._views(page, request.base_url)
        return WarehouseList(warehouses=[*views], next_page_token=page[-1].cluster_id if rest else "")

    async def data_sources(self, caller: Caller) -> Sequence[DataSource]:
        """The same, as clients from before the Warehouses API know them."""
        return [
            DataSource(
                id=str(uuid5(NAMESPACE_URL, each.cluster_id)), name=each.spec.cluster_name or "", warehouse_id=each.cluster_id
            )
            for each in await self._shown(caller, None)
        ]

    async def cluster_of(self, caller: Caller, warehouse_id: str) -> str | None:
        """The id of a warehouse's cluster; None if there is no such warehouse. Raises PermissionDenied."""
        found = await self._compute(caller, warehouse_id, clusters=False)
        return None if found is None else found.cluster_id

    async def compute_of(self, caller: Caller, warehouse_id: str) -> Compute | None:
        """See `Warehouses`. A job's cluster is its run's alone."""
        return await self._compute(caller, warehouse_id, clusters=True)

    async def _compute(self, caller: Caller, warehouse_id: str, *, clusters: bool) -> Compute | None:
        def work(tx: Tx) -> Compute | None:
            found = tx.clusters.get(warehouse_id)
            if found is None or found.deleted_ms or found.source is ClusterSource.JOB:
                return None
            if found.warehouse is None and not clusters:
                return None
            takes = Permission.CAN_ATTACH_TO if found.warehouse is None else Permission.CAN_USE
            self._authorizer.require(tx, caller, takes, of_cluster(found), to="run statements on")
            return Compute(found.cluster_id, "" if found.warehouse is None else found.cluster_id)

        return await self._store.read(work)

    async def configuration(self, caller: Caller) -> WarehouseConfigView:
        """What all warehouses have."""

        def work(tx: Tx) -> WarehouseConfig:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="list the SQL warehouses of the")
            return config(tx)

        return WarehouseConfigView(
            **msgspec.structs.asdict(await self._store.read(work)), node_type_id=usual_node_type(self._offered())
        )

    # --- inside ---

    async def _shown(self, caller: Caller, user_id: str | None) -> Sequence[Cluster]:
        def work(tx: Tx) -> Sequence[Cluster]:
            found = self._authorizer.shown(tx, caller, ObjectKind.WAREHOUSE, tx.clusters.warehouses(), of_cluster)
            if user_id is None:
                return found
            if user_id != caller.user_id:
                raise InvalidParameterValue("run_as_user_id must be your own user id.")
            acls = self._authorizer.acls(tx, [of_cluster(each) for each in found])
            return [each for each, acl in zip(found, acls, strict=True) if acl.allows(caller, Permission.CAN_USE)]

        return await self._store.read(work)

    async def _views(self, found: Sequence[Cluster], base_url: str) -> Sequence[WarehouseView]:
        counts = await asyncio.gather(*(self._count(each) for each in found))
        return [_view(each, base_url, sessions=count) for each, count in zip(found, counts, strict=True)]

    async def _count(self, found: Cluster) -> int:
        """How many sessions its driver has; 0 if it does not answer."""
        if state_of(found) is not WarehouseState.RUNNING:
            return 0
        try:
            async with asyncio.timeout(COUNT_S):
                return await self._sessions.session_count(found.cluster_id)
        except (ApiError, TimeoutError):
            return 0

    async def _change(self, warehouse_id: str, work: Callable[[Tx], None]) -> None:
        await self._store.write(work)
        self._clusters.changed(warehouse_id)

    def _find(self, tx: Tx, caller: Caller, warehouse_id: str, permission: Permission, *, to: str) -> Cluster:
        found = _existing(tx, warehouse_id)
        self._authorizer.require(tx, caller, permission, of_cluster(found), to=to)
        return found

    def _offered(self) -> Offered:
        offers = self._clusters.offers
        return Offered(list(offers.runtimes.values()), offers.node_types(), self._node_type, self._photon)


def config(tx: Tx) -> WarehouseConfig:
    """What all warehouses have."""
    stored = tx.get_meta(_CONFIG)
    return WarehouseConfig() if stored is None else _decode_config(stored)


def _existing(tx: Tx, warehouse_id: str) -> Cluster:
    found = tx.clusters.get(warehouse_id)
    if found is None or found.deleted_ms or found.warehouse is None:
        raise ResourceDoesNotExist(f"SQL warehouse {warehouse_id[:_SHOWN]} does not exist.")
    return found


def _take_name(tx: Tx, spec: ClusterSpec) -> None:
    """Raises InvalidParameterValue if another warehouse has the name. Writers take turns until the commit."""
    tx.lock("warehouses")
    if any(each.spec.cluster_name == spec.cluster_name for each in tx.clusters.warehouses()):
        raise InvalidParameterValue(f"SQL warehouse with name `{spec.cluster_name}` already exists")


def _fields(spec: ClusterSpec) -> dict[str, Any]:  # each has its type in the request too
    return {name: getattr(spec, name) for name in ClusterSpec.__struct_fields__}


def _view(cluster: Cluster, base_url: str, *, sessions: int) -> WarehouseView:
    spec, warehouse = cluster.spec, cluster.warehouse
    assert warehouse is not None  # noqa: S101 - a caller's promise
    state, url = state_of(cluster), urlsplit(base_url)
    secure, path = url.scheme == "https", f"/sql/1.0/warehouses/{cluster.cluster_id}"
    host, port = url.hostname or "", url.port or (443 if secure else 80)
    name = f"[{host}]" if ":" in host else host
    return WarehouseView(
        id=cluster.cluster_id,
        name=spec.cluster_name or "",
        cluster_size=warehouse.cluster_size,
        num_clusters=1 if state is WarehouseState.RUNNING else 0,
        num_active_sessions=sessions,
        auto_stop_mins=spec.autotermination_minutes or 0,
        creator_name=cluster.creator_user_name,
        state=state,
        channel=Channel(name=warehouse.channel),
        tags=tags_of(cluster),
        spot_instance_policy=warehouse.spot_instance_policy,
        enable_photon=warehouse.enable_photon,
        warehouse_type=warehouse.warehouse_type,
        health=health_of(cluster),
        jdbc_url=f"jdbc:spark://{name}:{port}/default;transportMode=http;ssl={int(secure)};AuthMech=3;httpPath={path};",
        odbc_params=OdbcParams(hostname=host, path=path, port=port, protocol="https" if secure else "http"),
        cluster_id=cluster.cluster_id,
        node_type_id=spec.node_type_id or "",
        spark_version=spec.spark_version or "",
    )
