"""What is done for a run whose owner has lost rights since it was submitted, and under a policy that is full by then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from brickyard.access import Authorizer
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Target
from brickyard.domain.policies import CreatePolicy
from brickyard.domain.requests import CreateCluster
from brickyard.domain.run import RunResultState, TerminationCode
from brickyard.domain.tasks import RunIf, SubmitRun, SubmitTask
from brickyard.features.runs.rights import RunRights
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from tests.features.policies.test_policies import service
from tests.reconcile.runworld import ADMIN, CLUSTER, RunWorld, task
from tests.reconcile.world import provider
from tests.support.databases import both_databases
from tests.support.golden import Golden
from tests.support.people import ENTITLED, enter, lock_out

R, CODE = RunResultState, TerminationCode
UNAUTHORIZED = CODE.UNAUTHORIZED_ERROR
USER = Caller(user_name="user@example.com", user_id="2", is_admin=False, token_id="u", entitlements=ENTITLED)
PLAIN = Caller(user_name="user@example.com", user_id="2", is_admin=False, token_id="u", entitlements=frozenset())


Taking = Callable[[Tx], object]


async def lose(world: RunWorld, *tasks: SubmitTask, by: Taking) -> list[tuple[TerminationCode | None, str]]:
    """Submits the tasks as USER, takes something away, and only then lets the run begin. How each task's attempt ended, after
    making sure that no machine was asked for."""
    for each in tasks:
        world.file(each.task_key, "never")
    run_id = await world.service.submit(USER, SubmitRun(tasks=list(tasks)))
    await world.store.write(by)
    async with world.running():
        await world.over(run_id)
    row = await world.row(run_id)
    attempts = [attempt for each in row.tasks for attempt in each.attempts]
    assert row.result is R.FAILED
    assert not world.provider.kernels.begun
    for attempt in attempts:
        cluster, nodes = await world.look(attempt.cluster_id) if attempt.cluster_id else (None, [])
        assert (cluster is None or cluster.target is Target.TERMINATED) and not nodes
    return [(attempt.code, attempt.message) for attempt in attempts]


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> RunWorld:
    await store.write(lambda tx: enter(tx, ADMIN, USER))
    return RunWorld(store, provider(), tmp_path, rights=RunRights(Authorizer()))


async def stopped(world: RunWorld, owner: Caller) -> str:
    ask = CreateCluster(cluster_name="c", spark_version=CLUSTER.spark_version, node_type_id="small", num_workers=1)
    return await world.store.write(lambda tx: world.clusters.commands.create(tx, owner, ask, stopped=True).cluster_id)


def grant(place: Place, *permissions: Permission) -> Taking:
    return lambda tx: tx.grants.put(place, [Grant(USER.user_id, each) for each in permissions])


async def test_no_machine_starts_for_who_was_deactivated(world: RunWorld, golden: Golden) -> None:
    own = await stopped(world, USER)
    tasks = (task("a", max_retries=-1), task("b", on=own), task("c", "a", run_if=RunIf.ALL_DONE))
    ended = await lose(world, *tasks, by=lambda tx: lock_out(tx, USER))
    assert [code for code, _ in ended] == [UNAUTHORIZED] * 3
    for _, why in ended:
        golden(why, USER.user_name)


async def test_no_machine_starts_for_who_may_not_use_the_policy_any_more(world: RunWorld, store: Store) -> None:
    policy_id = await service(store).create(ADMIN, CreatePolicy(name="p", definition="{}"))
    policy = Place(ObjectKind.CLUSTER_POLICY, policy_id)
    await store.write(grant(policy, Permission.CAN_USE))
    under = msgspec.structs.replace(task("a"), new_cluster=msgspec.structs.replace(CLUSTER, policy_id=policy_id))
    ((code, message),) = await lose(world, under, by=grant(policy))
    assert (code, "CAN_USE" in message) == (UNAUTHORIZED, True), message


async def test_no_machine_starts_for_who_may_not_make_clusters_any_more(world: RunWorld) -> None:
    ((code, message),) = await lose(world, task("a"), by=lambda tx: enter(tx, PLAIN))
    assert (code, "create clusters" in message) == (UNAUTHORIZED, True), message


async def test_a_cluster_that_its_user_may_not_start_any_more_stays_down(world: RunWorld, store: Store) -> None:
    """They might still run code there, if it ran."""

    name = await stopped(world, ADMIN)
    shared = Place(ObjectKind.CLUSTER, name)
    await store.write(grant(shared, Permission.CAN_RESTART))
    ((code, message),) = await lose(world, task("a", on=name), by=grant(shared, Permission.CAN_ATTACH_TO))
    assert (code, "CAN_RESTART" in message) == (UNAUTHORIZED, True), message


async def test_a_cluster_that_became_somebody_else_s_stays_down(world: RunWorld, store: Store) -> None:
    name = await stopped(world, ADMIN)
    await store.write(grant(Place(ObjectKind.CLUSTER, name), Permission.CAN_RESTART))

    def taken(tx: Tx) -> None:
        cluster = tx.clusters.get(name)
        assert cluster is not None
        spec = msgspec.structs.replace(cluster.spec, single_user_name=ADMIN.user_name)
        tx.clusters.update(msgspec.structs.replace(cluster, spec=spec))

    ((code, message),) = await lose(world, task("a", on=name), by=taken)
    assert (code, "Single-user check failed" in message) == (UNAUTHORIZED, True), message


@both_databases
async def test_tasks_that_waited_count_under_their_policy_when_their_turn_comes(world: RunWorld, store: Store) -> None:
    """One after the other they need room for one cluster; side by side they do not get it."""

    asked = CreatePolicy(name="p", definition="{}", max_clusters_per_user=1)
    spec = msgspec.structs.replace(CLUSTER, policy_id=await service(store).create(ADMIN, asked))

    async def result(*tasks: SubmitTask) -> RunResultState | None:
        for each in tasks:
            world.file(each.task_key, "")
        governed = [msgspec.structs.replace(each, new_cluster=spec) for each in tasks]
        run_id = await world.submit(*governed)
        await world.over(run_id)
        row = await world.row(run_id)
        full = [each.message for task in row.tasks for each in task.attempts if each.code is CODE.INVALID_CLUSTER_REQUEST]
        assert all("which allows 1" in message for message in full)
        assert len(full) == (0 if row.result is R.SUCCESS else 1)
        return row.result

    async with world.running():
        assert await result(task("a"), task("b", "a"), task("c", "b")) is R.SUCCESS
        assert await result(task("a"), task("b", "a"), task("c", "a")) is R.FAILED
