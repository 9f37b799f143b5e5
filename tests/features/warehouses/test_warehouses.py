"""Warehouses in both databases: one row, which no kill leaves half changed."""

from __future__ import annotations

import pytest

from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.errors import ApiError, InvalidParameterValue, InvalidState, PermissionDenied, ResourceDoesNotExist
from brickyard.domain.requests import ClusterId, EditCluster, StartCluster
from brickyard.features.warehouses.model import (
    ChangeWarehouseConfig,
    ConfPair,
    CreateWarehouse,
    EditWarehouse,
    ListWarehouses,
    WarehouseId,
    WarehouseState,
)
from brickyard.features.warehouses.service import WarehouseService
from brickyard.plan.attach import Client
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, ASK, USER
from tests.support.world import World

OTHER = USER.__class__(user_name="other@example.com", user_id="77", is_admin=False, token_id="o")


class NoSessions:
    async def session_count(self, cluster_id: str) -> int:
        del cluster_id
        return 0


class Shop(World):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.warehouses = WarehouseService(
            store=store, authorizer=self.authorizer, clusters=self.clusters, sessions=NoSessions(), node_type="small"
        )

    async def make(self, name: str = "w") -> str:
        self.clock.advance(ms=1)
        return await self.warehouses.create(USER, CreateWarehouse(name=name, cluster_size="2X-Small"))

    async def state(self, warehouse_id: str) -> WarehouseState:
        return (await self.warehouses.get(USER, WarehouseId(id=warehouse_id, base_url="https://here:8443"))).state


@pytest.fixture
def shop(store: Store) -> Shop:
    return Shop(store)


@both_databases
async def test_from_its_creation_to_its_deletion(shop: Shop) -> None:
    made = await shop.make()
    assert await shop.state(made) is WarehouseState.STARTING
    assert made in shop.woken
    with pytest.raises(InvalidState):  # it starts: an edit would be lost in a restart
        await shop.warehouses.edit(USER, EditWarehouse(id=made, cluster_size="Small"))
    await shop.warehouses.stop(USER, WarehouseId(id=made))
    assert await shop.state(made) is WarehouseState.STOPPING
    await shop.warehouses.stop(USER, WarehouseId(id=made))
    with pytest.raises(InvalidParameterValue):
        await shop.make()
    await shop.warehouses.delete(USER, WarehouseId(id=made))
    with pytest.raises(ResourceDoesNotExist):
        await shop.state(made)
    assert await shop.make() != made


@both_databases
async def test_the_clusters_api_only_starts_it(shop: Shop) -> None:
    made = await shop.make()
    commands = shop.clusters
    for refused in (
        commands.delete(ADMIN, ClusterId(cluster_id=made)),
        commands.permanent_delete(ADMIN, ClusterId(cluster_id=made)),
        commands.edit(ADMIN, EditCluster(cluster_id=made, num_workers=1, spark_version="x", node_type_id="small")),
        commands.pin(ADMIN, ClusterId(cluster_id=made)),
    ):
        with pytest.raises(InvalidState):
            await refused
    with pytest.raises(ApiError):  # it starts already
        await commands.start(ADMIN, StartCluster(cluster_id=made))


@both_databases
async def test_levels_stand_for_those_of_its_cluster(shop: Shop) -> None:
    made = await shop.make()

    async def grant(permission: Permission | None) -> None:
        grants = [] if permission is None else [Grant(OTHER.user_id, permission)]
        await shop.store.write(lambda tx: tx.grants.put(Place(ObjectKind.CLUSTER, made), grants))

    async def may_attach() -> bool:
        try:
            await shop.attach.look(OTHER, made)
        except PermissionDenied:
            return False
        return True

    for level, sees, runs, stops in (
        (None, False, False, False),
        (Permission.CAN_VIEW, True, False, False),
        (Permission.CAN_USE, True, True, False),
        (Permission.CAN_MONITOR, True, True, False),
        (Permission.CAN_MANAGE, True, True, True),
    ):
        await grant(level)
        assert [each.id for each in (await shop.warehouses.list(OTHER, ListWarehouses())).warehouses] == [made] * sees
        assert await may_attach() is runs
        try:
            await shop.warehouses.stop(OTHER, WarehouseId(id=made))
            assert stops
        except PermissionDenied:
            assert not stops


@both_databases
async def test_statements_run_on_warehouses_and_on_all_purpose_clusters(shop: Shop) -> None:
    made = await shop.make()
    cluster = await shop.clusters.create(USER, ASK)
    assert await shop.warehouses.compute_of(USER, made) == (made, made)
    assert await shop.warehouses.compute_of(USER, cluster) == (cluster, "")
    assert await shop.warehouses.cluster_of(USER, cluster) is None  # as a warehouse, it does not exist
    assert await shop.warehouses.compute_of(USER, "none") is None
    for each in (made, cluster):
        with pytest.raises(PermissionDenied):
            await shop.warehouses.compute_of(OTHER, each)


@both_databases
async def test_what_a_new_warehouse_gets_is_said(shop: Shop) -> None:
    said = (await shop.warehouses.configuration(USER)).node_type_id
    assert said == (await shop.warehouses.get(USER, WarehouseId(id=await shop.make()))).node_type_id


@both_databases
async def test_pages(shop: Shop) -> None:
    made = [await shop.make(f"w{number}") for number in range(5)]
    found, token = [], None
    while token is None or token:
        page = await shop.warehouses.list(USER, ListWarehouses(page_size=2, page_token=token))
        found += [each.id for each in page.warehouses]
        token = page.next_page_token
    assert found == made
    with pytest.raises(InvalidParameterValue):
        await shop.warehouses.list(USER, ListWarehouses(page_token="no-such"))


@both_databases
async def test_a_configuration_is_for_all_or_none(shop: Shop) -> None:
    """While one starts, nothing of it is written."""
    await shop.make()
    asked = ChangeWarehouseConfig(data_access_config=[ConfPair(key="spark.x", value="1")])
    with pytest.raises(InvalidState):
        await shop.warehouses.configure(ADMIN, asked)
    assert (await shop.warehouses.configuration(USER)).data_access_config == []
    with pytest.raises(PermissionDenied):
        await shop.warehouses.configure(USER, asked)


async def test_a_stopped_warehouse_stays(shop: Shop) -> None:
    """A terminated cluster is removed after 30 days."""
    made = await shop.make()

    def kept(tx: Tx) -> int:
        found = tx.clusters.get(made)
        assert found is not None
        return found.forget_ms

    await shop.warehouses.stop(USER, WarehouseId(id=made))
    assert await shop.store.read(kept) == 0


async def test_it_runs_sql_and_no_other_code(shop: Shop) -> None:
    """Whatever their permission: contexts, Spark Connect and jobs are another kind of work."""
    made = await shop.make()
    for caller in (USER, ADMIN):
        assert (await shop.attach.look(caller, made, client=Client.SQL)).cluster.cluster_id == made
        for other in (Client.NOTEBOOKS, Client.JOBS):
            with pytest.raises(PermissionDenied):
                await shop.attach.look(caller, made, client=other)
