"""Enforcement that waits for a cluster's end: who may ask for it, and what edits, policies and other servers do to it."""

from __future__ import annotations

import asyncio

import pytest

from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.cluster import Target
from brickyard.domain.errors import InvalidState, PermissionDenied, ResourceDoesNotExist
from brickyard.domain.events import EventType
from brickyard.domain.policies import (
    CreatePolicy,
    EditPolicy,
    EnforceCompliance,
    EnforceMode,
    EnforceResult,
    PendingEnforcement,
    PolicyId,
)
from brickyard.domain.requests import ClusterId, EditCluster, GetEvents, ResizeCluster, RestartCluster
from brickyard.store.store import Store
from tests.features.policies.test_policies import service
from tests.support.desk import ADMIN, RUNTIME, USER, Desk, refused

RULES = '{"custom_tags.team": {"type": "fixed", "value": "x"}, "num_workers": {"type": "range", "maxValue": 3}}'


async def strayed(store: Store, desk: Desk) -> tuple[str, str]:
    """A running cluster of four workers, and its policy, which has become stricter since."""
    policy_id = await service(store).create(ADMIN, CreatePolicy(name="p", definition="{}"))
    name = await desk.create(policy_id=policy_id, num_workers=4)
    await desk.bring_up(name)
    await service(store).edit(ADMIN, EditPolicy(policy_id=policy_id, name="p", definition=RULES))
    return name, policy_id


def waiting(name: str) -> EnforceCompliance:
    return EnforceCompliance(cluster_id=name, enforce_mode=EnforceMode.WAIT_FOR_TERMINATION)


async def told(desk: Desk, name: str) -> list[EventType]:
    found = (await desk.service.events(ADMIN, GetEvents(cluster_id=name))).events or []
    return [each.type for each in reversed(found) if "POLICY" in each.type or each.type is EventType.EDITED]


async def test_it_is_applied_when_the_cluster_restarts(store: Store) -> None:
    desk, other = Desk(store), Desk(store)  # two servers
    name, _ = await strayed(store, desk)
    before = await desk.row(name)
    preview = await desk.service.enforce_compliance(ADMIN, EnforceCompliance(
        cluster_id=name, enforce_mode=EnforceMode.WAIT_FOR_TERMINATION, validate_only=True))  # fmt: skip
    assert (preview.has_changes, preview.enforce_result) == (True, EnforceResult.NO_CHANGES)
    assert await desk.row(name) == before
    done = await desk.service.enforce_compliance(ADMIN, waiting(name))
    assert (done.has_changes, done.enforce_result) == (True, EnforceResult.DEFERRED)
    assert (await desk.row(name)).spec == before.spec
    seen = (await other.service.compliance(ADMIN, name)).pending_enforcement
    assert isinstance(seen, PendingEnforcement)
    assert seen.initiator_user == ADMIN.user_name
    assert [(each.field, each.new_value) for each in seen.target_changes] == [("custom_tags.team", "x"), ("num_workers", "3")]
    await other.service.resize(ADMIN, ResizeCluster(cluster_id=name, num_workers=1))
    await desk.settle(name, sized=True)
    await other.service.restart(ADMIN, RestartCluster(cluster_id=name))
    after = await desk.row(name)
    assert (after.spec.custom_tags, after.spec.num_workers, after.enforcement) == ({"team": "x"}, 1, None)
    assert (await desk.service.compliance(ADMIN, name)).is_compliant
    assert await told(desk, name) == [EventType.DEFERRED_POLICY_ENFORCEMENT_SCHEDULED, EventType.EDITED]


async def test_only_administrators_defer_and_cancel(store: Store) -> None:
    desk = Desk(store)
    name, _ = await strayed(store, desk)
    place = Place(ObjectKind.CLUSTER, name)
    await store.write(lambda tx: tx.grants.put(place, [Grant(USER.user_id, Permission.CAN_MANAGE)]))
    await refused(PermissionDenied, desk.service.enforce_compliance(USER, waiting(name)))
    await refused(ResourceDoesNotExist, desk.service.cancel_enforcement(ADMIN, name, allow_missing=False))
    await desk.service.cancel_enforcement(ADMIN, name, allow_missing=True)
    await desk.service.enforce_compliance(ADMIN, waiting(name))
    await refused(PermissionDenied, desk.service.cancel_enforcement(USER, name, allow_missing=True))
    await desk.service.cancel_enforcement(ADMIN, name, allow_missing=False)
    assert (await desk.row(name)).enforcement is None
    await desk.service.enforce_compliance(ADMIN, waiting(name))
    await desk.service.delete(ADMIN, ClusterId(cluster_id=name))
    await refused(InvalidState, desk.service.cancel_enforcement(ADMIN, name, allow_missing=True))
    await desk.settle(name, target=Target.TERMINATED, ended=True, enforcement=None)
    assert (await desk.service.enforce_compliance(ADMIN, waiting(name))).enforce_result is EnforceResult.APPLIED
    assert (await desk.row(name)).spec.custom_tags == {"team": "x"}, "a terminated cluster is edited at once"


async def test_a_newer_edit_counts_and_a_deleted_policy_ends_it(store: Store) -> None:
    desk = Desk(store)
    name, policy_id = await strayed(store, desk)
    await desk.service.enforce_compliance(ADMIN, waiting(name))
    edit = EditCluster(cluster_id=name, spark_version=RUNTIME.key, node_type_id="small", num_workers=2, policy_id=policy_id)
    await desk.service.edit(ADMIN, edit)
    assert (await desk.row(name)).enforcement is None
    await service(store).edit(ADMIN, EditPolicy(policy_id=policy_id, name="p", definition=RULES.replace('"x"', '"y"')))
    await desk.bring_up(name)
    await desk.service.enforce_compliance(ADMIN, waiting(name))
    await service(store).delete(ADMIN, PolicyId(policy_id=policy_id))
    assert (await desk.row(name)).enforcement is None
    await desk.service.restart(ADMIN, RestartCluster(cluster_id=name))
    assert (await desk.row(name)).spec.custom_tags == {"team": "x"}
    assert (await told(desk, name))[-2:] == [
        EventType.DEFERRED_POLICY_ENFORCEMENT_SCHEDULED,
        EventType.DEFERRED_POLICY_ENFORCEMENT_FAILED,
    ]


@pytest.mark.parametrize("rival", ["restart", "delete policy", "cancel"])
async def test_two_at_once_leave_a_defined_state(store: Store, rival: str) -> None:
    desk, other = Desk(store), Desk(store)
    name, policy_id = await strayed(store, desk)
    calls = {
        "restart": other.service.restart(ADMIN, RestartCluster(cluster_id=name)),
        "delete policy": service(store).delete(ADMIN, PolicyId(policy_id=policy_id)),
        "cancel": other.service.cancel_enforcement(ADMIN, name, allow_missing=True),
    }
    for key, call in calls.items():
        if key != rival:
            call.close()
    answers = await asyncio.gather(desk.service.enforce_compliance(ADMIN, waiting(name)), calls[rival], return_exceptions=True)
    after = await desk.row(name)
    applied = after.spec.custom_tags == {"team": "x"}
    if rival == "delete policy":
        assert after.enforcement is None and not applied
    else:
        assert answers[0].enforce_result is EnforceResult.DEFERRED  # type: ignore[union-attr]  # it cannot fail here
        assert not applied or after.enforcement is None
        assert rival == "cancel" or applied or after.enforcement is not None
