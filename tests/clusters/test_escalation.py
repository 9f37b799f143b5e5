"""Nobody gets more than was granted: not through pools, policies and clusters of others, and not by racing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.access import Authorizer
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.domain.errors import ApiError, PermissionDenied, ResourceDoesNotExist
from brickyard.domain.identity import GroupRow
from brickyard.domain.policies import CreatePolicy, EditPolicy, PolicyId
from brickyard.domain.requests import CloneCluster, EditCluster, UpdateCluster
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.tasks import SubmitRun
from brickyard.features.identity import IdentityServices
from brickyard.store.sharing import Always
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.features.policies import test_policies
from tests.features.pools import test_pools
from tests.reconcile.runworld import CLUSTER, RunWorld, task
from tests.reconcile.world import provider
from tests.support.databases import empty_sqlite
from tests.support.desk import ADMIN, ASK
from tests.support.people import enter
from tests.support.postgres import Postgres
from tests.support.services import no_homes

EVE = Caller(user_name="eve@example.com", user_id="666", is_admin=False, token_id="e")  # may only use the policy "mine"
BESIDE_POOL: dict[str, Any] = {"node_type_id": None, "driver_node_type_id": None}


class Site:
    """A workspace in which Eve has a cluster under her policy."""

    def __init__(self, store: Store, root: Path) -> None:
        self.store = store
        self.world = RunWorld(store, provider(), root)
        self.world.file("a", "never")

    async def fill(self) -> None:
        await self.store.write(lambda tx: enter(tx, ADMIN, EVE))
        self.pool = await test_pools.service(self.store).create(ADMIN, test_pools.ASK)
        policies = test_policies.service(self.store)
        self.mine, self.others = [await policies.create(ADMIN, CreatePolicy(name=name, definition="{}")) for name in ("m", "o")]
        place = Place(ObjectKind.CLUSTER_POLICY, self.mine)
        await self.store.write(lambda tx: tx.grants.put(place, [Grant(EVE.user_id, Permission.CAN_USE)]))
        self.hers = await self.world.clusters.create(EVE, msgspec.structs.replace(ASK, policy_id=self.mine))
        self.foreign = await self.world.clusters.create(ADMIN, ASK)

    async def create(self, **fields: Any) -> object:
        return await self.world.clusters.create(EVE, msgspec.structs.replace(ASK, **fields))

    async def edit(self, cluster_id: str, **fields: Any) -> None:
        known = msgspec.structs.asdict(ASK)
        given = {name: value for name, value in known.items() if name in EditCluster.__struct_fields__} | fields
        await self.world.clusters.edit(EVE, EditCluster(cluster_id=cluster_id, **given))

    async def update(self, mask: str, **fields: Any) -> None:
        await self.world.clusters.update(
            EVE, UpdateCluster(cluster_id=self.hers, update_mask=mask, cluster=ClusterSpec(**fields))
        )

    async def submit(self, on: str = "", **fields: Any) -> object:
        one = (
            task("a", on=on) if on else msgspec.structs.replace(task("a"), new_cluster=msgspec.structs.replace(CLUSTER, **fields))
        )
        return await self.world.service.submit(EVE, SubmitRun(tasks=[one]))


DEPUTIES: dict[str, Callable[[Site], Coroutine[Any, Any, object]]] = {
    "no policy": lambda of: of.create(),
    "a policy that does not exist": lambda of: of.create(policy_id="0" * 16),
    "a policy of others": lambda of: of.create(policy_id=of.others),
    "a pool of others": lambda of: of.create(policy_id=of.mine, instance_pool_id=of.pool, **BESIDE_POOL),
    "a pool of others for the driver": lambda of: of.create(policy_id=of.mine, driver_instance_pool_id=of.pool),
    "a clone": lambda of: of.create(policy_id=of.mine, clone_from=CloneCluster(source_cluster_id=of.foreign)),
    "an edit out of the policy": lambda of: of.edit(of.hers),
    "an edit into another policy": lambda of: of.edit(of.hers, policy_id=of.others),
    "an edit onto a pool": lambda of: of.edit(of.hers, policy_id=of.mine, instance_pool_id=of.pool, **BESIDE_POOL),
    "an edit of others' cluster": lambda of: of.edit(of.foreign, policy_id=of.mine),
    "an update out of the policy": lambda of: of.update("policy_id"),
    "an update onto a pool": lambda of: of.update("instance_pool_id,node_type_id,driver_node_type_id", instance_pool_id=of.pool),
    "a run on others' cluster": lambda of: of.submit(of.foreign),
    "a job cluster without a policy": lambda of: of.submit(),
    "a job cluster under others' policy": lambda of: of.submit(policy_id=of.others),
    "a job cluster on others' pool": lambda of: of.submit(policy_id=of.mine, instance_pool_id=of.pool, **BESIDE_POOL),
}


async def test_nobody_is_served_by_what_belongs_to_others(tmp_path: Path) -> None:
    store = Store.open(empty_sqlite(tmp_path / "test.db"))
    site = Site(store, tmp_path)
    await site.fill()
    ids = (site.hers, site.foreign)
    before = await store.read(lambda tx: [tx.clusters.get(each) for each in ids])
    for name, call in DEPUTIES.items():
        with pytest.raises(PermissionDenied):
            await call(site)
            pytest.fail(name)
    assert await store.read(lambda tx: [tx.clusters.get(each) for each in ids]) == before
    assert await store.read(lambda tx: tx.runs.active_of(EVE.user_name)) == []
    # What was taken from her she cannot use any more, though she goes on with what she has made.
    place = Place(ObjectKind.CLUSTER_POLICY, site.mine)
    await store.write(lambda tx: tx.grants.put(place, []))
    with pytest.raises(PermissionDenied):
        await site.create(policy_id=site.mine)
    with pytest.raises(PermissionDenied):
        await site.edit(site.hers, policy_id=site.mine)
    store.close()


async def test_two_servers_at_once_make_no_circle_and_bring_no_policy_back(postgres: Postgres) -> None:
    url = postgres.new_database()
    one, other = Store.open(url, sharing=Always(alone=False)), Store.open(url, sharing=Always(alone=False))

    def groups(store: Store) -> IdentityServices:
        return IdentityServices.build(store=store, clock=ManualClock(), ids=Ids(), authorizer=Authorizer(), homes=no_homes())

    async def circle(number: int) -> None:
        ids = [f"{number}1", f"{number}2"]
        for group_id in ids:
            row = GroupRow(group_id=group_id, display_name=f"g{group_id}")
            await one.write(lambda tx, row=row: tx.groups.put(row))  # type: ignore[misc] # a default binds the row
        add = [{"Operations": [{"op": "add", "path": "members", "value": [{"value": each}]}]} for each in ids]
        acts = (groups(one).groups.patch(ADMIN, ids[0], add[1]), groups(other).groups.patch(ADMIN, ids[1], add[0]))
        answers = await asyncio.gather(*acts, return_exceptions=True)
        assert [isinstance(each, ApiError) for each in answers].count(True) == 1, answers

    async def deleted(number: int) -> None:
        policy_id = await test_policies.service(one).create(ADMIN, CreatePolicy(name=f"p{number}", definition="{}"))
        edit = EditPolicy(policy_id=policy_id, name=f"q{number}", definition="{}")
        acts = (
            test_policies.service(one).edit(ADMIN, edit),
            test_policies.service(other).delete(ADMIN, PolicyId(policy_id=policy_id)),
        )
        answers = await asyncio.gather(*acts, return_exceptions=True)
        assert [each for each in answers if isinstance(each, BaseException) and not isinstance(each, ApiError)] == []
        with pytest.raises(ResourceDoesNotExist):
            await test_policies.service(one).get(ADMIN, PolicyId(policy_id=policy_id))

    try:
        await one.write(lambda tx: enter(tx, ADMIN))
        for number in range(1, 9):
            await circle(number)
            await deleted(number)
    finally:
        one.close()
        other.close()
