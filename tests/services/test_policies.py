"""Policies as a service: what two callers do at once, defaults of families, lax checks, clusters whose policy goes away."""

from __future__ import annotations

import asyncio

import pytest

from brickyard.domain.clock import Ids
from brickyard.domain.errors import InvalidParameterValue, PermissionDenied, QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.policies import CreatePolicy, EditPolicy, ListPolicies, PolicyId
from brickyard.domain.requests import EditCluster, ResizeCluster, StartCluster
from brickyard.services.access import Authorizer
from brickyard.services.policies import PolicyService
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.services.desk import ADMIN, RUNTIME, USER, Desk


def service(store: Store, *, strict: bool = True) -> PolicyService:
    return PolicyService(store=store, clock=ManualClock(), ids=Ids(), authorizer=Authorizer(), strict=strict)


def test_of_creates_at_once_no_more_succeed_than_the_policy_allows(store: Store) -> None:
    async def scenario() -> None:
        policy_id = await service(store).create(ADMIN, CreatePolicy(name="p", definition="{}", max_clusters_per_user=2))
        desk = Desk(store)
        answers = await asyncio.gather(*(desk.create(policy_id=policy_id) for _ in range(6)), return_exceptions=True)
        assert len([answer for answer in answers if isinstance(answer, str)]) == 2
        assert len([answer for answer in answers if isinstance(answer, QuotaExceeded)]) == 4

    asyncio.run(scenario())


def test_of_two_at_once_one_gets_the_name(store: Store) -> None:
    async def scenario() -> None:
        policies = service(store)
        asked = CreatePolicy(name="p", definition="{}")
        answers = await asyncio.gather(*(policies.create(ADMIN, asked) for _ in range(4)), return_exceptions=True)
        assert len([answer for answer in answers if isinstance(answer, str)]) == 1
        with pytest.raises(InvalidParameterValue, match="is taken"):
            await policies.create(ADMIN, CreatePolicy(name="Job Compute", definition="{}"))

    asyncio.run(scenario())


def test_users_use_policies_and_do_not_change_them(store: Store) -> None:
    async def scenario() -> None:
        policies = service(store)
        policy_id = await policies.create(ADMIN, CreatePolicy(name="p", definition="{}"))
        with pytest.raises(PermissionDenied, match="only administrators"):
            await policies.create(USER, CreatePolicy(name="q", definition="{}"))
        with pytest.raises(PermissionDenied):
            await policies.edit(USER, EditPolicy(policy_id=policy_id, name="q", definition="{}"))
        with pytest.raises(PermissionDenied):
            await policies.delete(USER, PolicyId(policy_id=policy_id))
        assert (await policies.get(USER, PolicyId(policy_id=policy_id))).name == "p"

    asyncio.run(scenario())


def test_a_default_policy_is_edited_within_its_family(store: Store) -> None:
    async def scenario() -> None:
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
        with pytest.raises(InvalidParameterValue, match="stays with its family"):
            await policies.edit(ADMIN, EditPolicy(policy_id=job.policy_id, name="x", policy_family_id="personal-vm"))

    asyncio.run(scenario())


def test_lax_checks_refuse_when_the_policy_is_used(store: Store) -> None:
    async def scenario() -> None:
        wrong = CreatePolicy(name="p", definition='{"num_worker": {"type": "fixed", "value": 1}}')
        with pytest.raises(InvalidParameterValue, match="num_worker: a cluster has no attribute"):
            await service(store).create(ADMIN, wrong)
        policy_id = await service(store, strict=False).create(ADMIN, wrong)
        with pytest.raises(InvalidParameterValue, match="cannot be satisfied due to the malformed policy definition"):
            await Desk(store).create(policy_id=policy_id)
        with pytest.raises(InvalidParameterValue, match="is not JSON"):
            await service(store, strict=False).create(ADMIN, CreatePolicy(name="q", definition="{"))

    asyncio.run(scenario())


def test_clusters_of_a_deleted_policy_run_and_cannot_be_edited(store: Store) -> None:
    async def scenario() -> None:
        policies, desk = service(store), Desk(store)
        policy_id = await policies.create(ADMIN, CreatePolicy(name="p", definition="{}"))
        cluster_id = await desk.create(policy_id=policy_id)
        await desk.bring_up(cluster_id)
        await policies.delete(ADMIN, PolicyId(policy_id=policy_id))
        await desk.service.resize(ADMIN, ResizeCluster(cluster_id=cluster_id, num_workers=3))
        await desk.settle(cluster_id, ended=True, target="TERMINATED")
        same = EditCluster(
            cluster_id=cluster_id, spark_version=RUNTIME.key, node_type_id="small", num_workers=1, policy_id=policy_id
        )
        with pytest.raises(ResourceDoesNotExist, match="Can't find a cluster policy"):
            await desk.service.edit(ADMIN, same)
        await desk.service.start(ADMIN, StartCluster(cluster_id=cluster_id))

    asyncio.run(scenario())
