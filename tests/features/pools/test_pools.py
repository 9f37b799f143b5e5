"""Instance pools as a service: a state in, one call, a state out; and what two callers do at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from brickyard.access import Acl, Authorizer
from brickyard.domain.access import Grant, ObjectKind, Permission, Place, Principal, SecurableObject
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Instance
from brickyard.domain.errors import InvalidParameterValue, PermissionDenied, ResourceDoesNotExist
from brickyard.domain.identity import USERS_ID
from brickyard.domain.instances import InstanceState
from brickyard.domain.pools import (
    CreateInstancePool,
    EditInstancePool,
    InstancePoolId,
    InstancePoolView,
    ListPoolDetails,
    Standing,
)
from brickyard.domain.spec import ClusterSpec
from brickyard.features.pools.service import PoolService
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.clock import ManualClock
from tests.plan.test_pool_plan import idle
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, RUNTIME, USER, Desk
from tests.support.golden import Golden
from tests.support.world import World

ASK = CreateInstancePool(instance_pool_name="p", node_type_id="small", min_idle_instances=1)


def service(store: Store, **settings: Any) -> PoolService:
    return World(store, **settings).pools


def named(name: str) -> CreateInstancePool:
    return msgspec.structs.replace(ASK, instance_pool_name=name)


async def test_of_two_at_once_one_gets_the_name(store: Store) -> None:
    pools = service(store)
    answers = await asyncio.gather(*(pools.create(ADMIN, ASK) for _ in range(6)), return_exceptions=True)
    made = [answer for answer in answers if isinstance(answer, str)]
    refused = [answer for answer in answers if isinstance(answer, InvalidParameterValue)]
    assert (len(made), len(refused)) == (1, 5)
    assert all(made[0] in error.message for error in refused)


async def test_an_edit_may_keep_its_name_and_not_take_anothers(store: Store, golden: Golden) -> None:
    world = World(store)
    pools = world.pools
    first, second = [await pools.create(ADMIN, named(name)) for name in ("first", "second")]
    edit = EditInstancePool(instance_pool_id=second, instance_pool_name="second", node_type_id="small", max_capacity=3)
    await pools.edit(ADMIN, edit)
    with golden.refused(InvalidParameterValue, "instance_pool_name", first):
        await pools.edit(ADMIN, msgspec.structs.replace(edit, instance_pool_name="first"))
    found = await pools.get(ADMIN, InstancePoolId(instance_pool_id=second))
    assert (found.instance_pool_name, found.max_capacity, found.min_idle_instances) == ("second", 3, None)
    assert world.woken == [first, second, second], "a refused edit wakes nobody"


async def test_counts_are_of_the_pools_own_instances(store: Store) -> None:
    pools = service(store)
    pool_id, other = [await pools.create(ADMIN, named(name)) for name in ("one", "other")]
    used = msgspec.structs.replace(idle(1), pool_id=pool_id, cluster_id="c")
    free = msgspec.structs.replace(idle(2), pool_id=pool_id)
    await store.write(lambda tx: tx.instances.insert(used))
    await store.write(lambda tx: tx.instances.insert(free))
    listed = {view.instance_pool_id: view for view in (await pools.list(ADMIN)).instance_pools or []}

    def numbers(view: InstancePoolView) -> tuple[int, int]:
        return view.stats.used_count, view.stats.idle_count

    assert (numbers(listed[pool_id]), numbers(listed[other])) == ((1, 1), (0, 0))


def _insert(row: Instance, tx: Tx) -> None:
    tx.instances.insert(row)


@both_databases
async def test_details_name_the_clusters_that_the_caller_may_see(store: Store) -> None:
    pools, desk = service(store), Desk(store)
    pool_id, other = [await pools.create(ADMIN, named(name)) for name in ("one", "other")]
    cluster_id = await desk.create()
    rows = [
        msgspec.structs.replace(idle(1), pool_id=pool_id, cluster_id=cluster_id),
        msgspec.structs.replace(idle(2), pool_id=pool_id),
        msgspec.structs.replace(idle(3, Standing.IDLE), pool_id=pool_id),
        msgspec.structs.replace(idle(4, Standing.LAUNCHING), pool_id=pool_id),
        msgspec.structs.replace(idle(5), pool_id=other),
        msgspec.structs.replace(idle(6), pool_id=pool_id, state=InstanceState.TERMINATING),
    ]
    for row in rows:
        await store.write(partial(_insert, row))
    (found,) = (await pools.details(ADMIN, ListPoolDetails(instance_pool_id=pool_id))).pools
    assert (found.creator_user_name, found.warm_count) == (ADMIN.user_name, 1)
    assert [(each.instance_id, each.state, each.cluster_id, each.message) for each in found.instances or []] == [
        ("i-0001", "USED", cluster_id, None),
        ("i-0002", "WARM", None, None),
        ("i-0003", "IDLE", None, "no"),
        ("i-0004", "LAUNCHING", None, None),
    ]
    every = (await pools.details(ADMIN, ListPoolDetails())).pools
    assert {(each.instance_pool_id, each.warm_count, each.instances) for each in every} == {
        (pool_id, 1, None),
        (other, 1, None),
    }
    assert (await pools.details(USER, ListPoolDetails(instance_pool_id=pool_id))).pools == []
    grant = Grant(USER.user_id, Permission.CAN_ATTACH_TO)
    await store.write(lambda tx: tx.grants.put(Place(ObjectKind.INSTANCE_POOL, pool_id), [grant]))
    (seen,) = (await pools.details(USER, ListPoolDetails(instance_pool_id=pool_id))).pools
    assert [each.cluster_id for each in seen.instances or []] == [None] * 4, "the cluster is another's"


class NotAllowed(Acl, frozen=True, kw_only=True):
    denied: Permission

    def require(self, principal: Principal, permission: Permission, *, to: str) -> None:
        if permission is self.denied:
            raise PermissionDenied(f"{principal.user_name} may not {to} {self.on}")


class Strict(Authorizer):
    """Nobody has that permission."""

    def __init__(self, denied: Permission) -> None:
        self._denied = denied

    def acl(self, tx: Tx, on: SecurableObject, *, of: Principal | None = None) -> Acl:
        return NotAllowed(on, denied=self._denied)


@pytest.mark.parametrize(
    ("denied", "call"),
    [
        (Permission.ALLOW_INSTANCE_POOL_CREATE, lambda pools, pool_id: pools.create(USER, named("another"))),
        (Permission.CAN_ATTACH_TO, lambda pools, pool_id: pools.get(USER, InstancePoolId(instance_pool_id=pool_id))),
        (Permission.CAN_MANAGE, lambda pools, pool_id: pools.delete(USER, InstancePoolId(instance_pool_id=pool_id))),
        (
            Permission.CAN_MANAGE,
            lambda pools, pool_id: pools.edit(
                USER, EditInstancePool(instance_pool_id=pool_id, instance_pool_name="q", node_type_id="small")
            ),
        ),
    ],
    ids=["create", "get", "delete", "edit"],
)
async def test_every_call_asks_who_may(store: Store, denied: Permission, call: Callable[[PoolService, str], Any]) -> None:
    pool_id = await service(store).create(ADMIN, ASK)
    with pytest.raises(PermissionDenied):
        await call(service(store, authorizer=Strict(denied)), pool_id)
    kept = await service(store).get(ADMIN, InstancePoolId(instance_pool_id=pool_id))
    assert kept.instance_pool_name == "p"


async def test_a_list_shows_ones_own_and_what_was_granted_in_order(store: Store) -> None:
    clock = ManualClock()
    pools, made = service(store, clock=clock), dict[str, str]()
    for name, caller in (("a", ADMIN), ("mine", USER), ("hidden", ADMIN), ("own and granted", USER), ("granted", ADMIN)):
        made[name] = await pools.create(caller, named(name))
        clock.advance(ms=1)
        if "granted" in name or name == "a":
            place = Place(ObjectKind.INSTANCE_POOL, made[name])
            grants = [Grant(each, Permission.CAN_ATTACH_TO) for each in (USER.user_id, USERS_ID)]
            await store.write(partial(_grant, place, grants))
    await pools.delete(ADMIN, InstancePoolId(instance_pool_id=made["granted"]))

    async def shown(caller: Caller) -> list[str | None]:
        return [each.instance_pool_name for each in (await pools.list(caller)).instance_pools or ()]

    assert await shown(USER) == ["a", "mine", "own and granted"]
    assert await shown(ADMIN) == ["a", "mine", "hidden", "own and granted"]


def _grant(place: Place, grants: list[Grant], tx: Tx) -> None:
    tx.grants.put(place, grants)


async def test_a_cluster_needs_the_right_to_its_pool(store: Store) -> None:
    pool_id = await service(store).create(ADMIN, ASK)
    desk = Desk(store)
    name = await desk.create(instance_pool_id=pool_id, node_type_id=None)
    assert (await desk.row(name)).pool_tags["DatabricksInstancePoolId"] == pool_id
    strict = Desk(store, authorizer=Strict(Permission.CAN_ATTACH_TO))
    with pytest.raises(PermissionDenied):
        await strict.create(instance_pool_id=pool_id, node_type_id=None)
    assert (await desk.row(name)).spec.node_type_id == "small"
    assert (await desk.row(name)).request == ClusterSpec(
        cluster_name="c", spark_version=RUNTIME.key, num_workers=2, instance_pool_id=pool_id
    )


async def test_a_deleted_pool_is_unknown_to_every_call(store: Store, golden: Golden) -> None:
    pools = service(store)
    pool_id = await pools.create(ADMIN, ASK)
    await pools.delete(ADMIN, InstancePoolId(instance_pool_id=pool_id))
    for call in (pools.get, pools.delete):
        with golden.refused(ResourceDoesNotExist):
            await call(ADMIN, InstancePoolId(instance_pool_id=pool_id))
    edit = EditInstancePool(instance_pool_id=pool_id, instance_pool_name="p", node_type_id="small")
    with pytest.raises(ResourceDoesNotExist):
        await pools.edit(ADMIN, edit)
    assert (await pools.list(ADMIN)).instance_pools == []
