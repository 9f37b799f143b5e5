"""Policies as a service: what two callers do at once, defaults of families, lax checks, clusters whose policy goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.access import Authorizer
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Target
from brickyard.domain.errors import InvalidParameterValue, InvalidState, PermissionDenied, QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.policies import CreatePolicy, EditPolicy, ListPolicies, PolicyId
from brickyard.domain.requests import EditCluster, ResizeCluster, StartCluster
from brickyard.domain.tasks import SubmitTask
from brickyard.features.policies.service import PolicyService
from brickyard.features.runs.model import RunId
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.reconcile.runworld import CLUSTER, RunWorld, task
from tests.reconcile.world import provider
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, RUNTIME, USER, Desk
from tests.support.golden import Golden


def service(store: Store, *, strict: bool = True) -> PolicyService:
    return PolicyService(store=store, clock=ManualClock(), ids=Ids(), authorizer=Authorizer(), strict=strict)


async def test_of_creates_at_once_no_more_succeed_than_the_policy_allows(store: Store) -> None:
    policy_id = await service(store).create(ADMIN, CreatePolicy(name="p", definition="{}", max_clusters_per_user=2))
    desk = Desk(store)
    answers = await asyncio.gather(*(desk.create(policy_id=policy_id) for _ in range(6)), return_exceptions=True)
    assert len([answer for answer in answers if isinstance(answer, str)]) == 2
    assert len([answer for answer in answers if isinstance(answer, QuotaExceeded)]) == 4


async def test_of_runs_at_once_no_more_succeed_than_the_policy_allows(store: Store, tmp_path: Path, golden: Golden) -> None:
    """Their clusters are made later. Tasks that wait for others make theirs when those of the others have ended."""

    policy_id = await service(store).create(ADMIN, CreatePolicy(name="p", definition="{}", max_clusters_per_user=2))
    world = RunWorld(store, provider(), tmp_path)
    governed = msgspec.structs.replace(CLUSTER, policy_id=policy_id)

    def submit(*tasks: SubmitTask) -> Coroutine[Any, Any, int]:
        for each in tasks:
            world.file(each.task_key, "")
        return world.submit(*(msgspec.structs.replace(each, new_cluster=governed) for each in tasks))

    with pytest.raises(QuotaExceeded):
        await submit(task("a"), task("b"), task("c"))
    first = await submit(task("a"), task("b", "a"), task("c", "b"))
    answers = await asyncio.gather(*(submit(task("a")) for _ in range(4)), return_exceptions=True)
    assert len([answer for answer in answers if isinstance(answer, QuotaExceeded)]) == 3
    with golden.refused(QuotaExceeded):
        await Desk(store).create(policy_id=policy_id)
    await world.service.cancel(ADMIN, RunId(run_id=first))
    await Desk(store).create(policy_id=policy_id)


async def test_a_running_cluster_does_not_enter_a_policy_that_is_full(store: Store) -> None:
    policy_id = await service(store).create(ADMIN, CreatePolicy(name="p", definition="{}", max_clusters_per_user=1))
    desk = Desk(store)
    await desk.create(policy_id=policy_id)
    free = await desk.create()
    await desk.bring_up(free)
    wanted = EditCluster(cluster_id=free, spark_version=RUNTIME.key, node_type_id="small", num_workers=2, policy_id=policy_id)
    with pytest.raises(QuotaExceeded):
        await desk.service.edit(ADMIN, wanted)
    await desk.settle(free, target=Target.TERMINATED, ended=True)
    await desk.service.edit(ADMIN, wanted)
    with pytest.raises(QuotaExceeded):
        await desk.service.start(ADMIN, StartCluster(cluster_id=free))


async def test_a_start_of_a_cluster_that_runs_is_a_matter_of_its_state_also_where_its_policy_is_full(store: Store) -> None:
    policy_id = await service(store).create(ADMIN, CreatePolicy(name="p", definition="{}", max_clusters_per_user=1))
    desk = Desk(store)
    name = await desk.create(policy_id=policy_id)
    with pytest.raises(InvalidState):
        await desk.service.start(ADMIN, StartCluster(cluster_id=name))
    await desk.bring_up(name)
    with pytest.raises(InvalidState):
        await desk.service.start(ADMIN, StartCluster(cluster_id=name))


async def test_of_two_at_once_one_gets_the_name(store: Store, golden: Golden) -> None:
    policies = service(store)
    asked = CreatePolicy(name="p", definition="{}")
    answers = await asyncio.gather(*(policies.create(ADMIN, asked) for _ in range(4)), return_exceptions=True)
    assert len([answer for answer in answers if isinstance(answer, str)]) == 1
    with golden.refused(InvalidParameterValue):
        await policies.create(ADMIN, CreatePolicy(name="Job Compute", definition="{}"))


@both_databases
async def test_users_use_policies_and_do_not_change_them(store: Store, golden: Golden) -> None:
    policies = service(store)
    policy_id = await policies.create(ADMIN, CreatePolicy(name="p", definition="{}"))
    with golden.refused(PermissionDenied):
        await policies.create(USER, CreatePolicy(name="q", definition="{}"))
    with pytest.raises(PermissionDenied):
        await policies.edit(USER, EditPolicy(policy_id=policy_id, name="q", definition="{}"))
    with pytest.raises(PermissionDenied):
        await policies.delete(USER, PolicyId(policy_id=policy_id))
    with pytest.raises(PermissionDenied, match="CAN_USE"):
        await policies.get(USER, PolicyId(policy_id=policy_id))
    listed = (await policies.list(USER, ListPolicies())).policies or []
    assert [each.policy_family_id for each in listed] == ["personal-vm"]
    place = Place(ObjectKind.CLUSTER_POLICY, policy_id)
    await store.write(lambda tx: tx.grants.put(place, [Grant(USER.user_id, Permission.CAN_USE)]))
    assert (await policies.get(USER, PolicyId(policy_id=policy_id))).name == "p"
    assert len((await policies.list(USER, ListPolicies())).policies or []) == 2


@both_databases
async def test_a_default_policy_is_edited_within_its_family(store: Store, golden: Golden) -> None:
    policies = service(store)
    listed = (await policies.list(ADMIN, ListPolicies())).policies or []
    job = next(each for each in listed if each.policy_family_id == "job-cluster")
    overrides = '{"num_workers": {"type": "fixed", "value": 1}}'
    wanted = EditPolicy(policy_id=job.policy_id, name=job.name, policy_family_definition_overrides=overrides)
    await policies.edit(ADMIN, wanted)
    found = await policies.get(ADMIN, PolicyId(policy_id=job.policy_id))
    assert found.is_default
    assert '"num_workers":{"type":"fixed","value":1}' in found.definition
    assert len((await policies.list(ADMIN, ListPolicies())).policies or []) == len(listed)
    with golden.refused(InvalidParameterValue):
        await policies.edit(ADMIN, EditPolicy(policy_id=job.policy_id, name="x", policy_family_id="personal-vm"))


async def test_lax_checks_refuse_when_the_policy_is_used(store: Store, golden: Golden) -> None:
    wrong = CreatePolicy(name="p", definition='{"num_worker": {"type": "fixed", "value": 1}}')
    with golden.refused(InvalidParameterValue, "num_worker"):
        await service(store).create(ADMIN, wrong)
    policy_id = await service(store, strict=False).create(ADMIN, wrong)
    with golden.refused(InvalidParameterValue):
        await Desk(store).create(policy_id=policy_id)
    with golden.refused(InvalidParameterValue):
        await service(store, strict=False).create(ADMIN, CreatePolicy(name="q", definition="{"))


@both_databases
async def test_clusters_of_a_deleted_policy_run_and_cannot_be_edited(store: Store, golden: Golden) -> None:
    policies, desk = service(store), Desk(store)
    policy_id = await policies.create(ADMIN, CreatePolicy(name="p", definition="{}"))
    cluster_id = await desk.create(policy_id=policy_id)
    await desk.bring_up(cluster_id)
    await policies.delete(ADMIN, PolicyId(policy_id=policy_id))
    await desk.service.resize(ADMIN, ResizeCluster(cluster_id=cluster_id, num_workers=3))
    await desk.settle(cluster_id, ended=True, target="TERMINATED")
    same = EditCluster(cluster_id=cluster_id, spark_version=RUNTIME.key, node_type_id="small", num_workers=1, policy_id=policy_id)
    with golden.refused(ResourceDoesNotExist):
        await desk.service.edit(ADMIN, same)
    await desk.service.start(ADMIN, StartCluster(cluster_id=cluster_id))
