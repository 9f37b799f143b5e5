"""`validate_only`: the verdict of the real call, all mistakes at once, and nothing done."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brickyard.access import Authorizer
from brickyard.clusters import ClusterService
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.domain.errors import (
    ApiError,
    InvalidParameterValue,
    InvalidState,
    PermissionDenied,
    QuotaExceeded,
    ResourceDoesNotExist,
)
from brickyard.domain.places import Place
from brickyard.domain.policies import CreatePolicy, ListPolicies
from brickyard.domain.requests import CreateCluster, EditCluster
from brickyard.domain.spec import AutoScale, ClusterSpec, DbfsStorageInfo, InitScriptInfo, WorkspaceStorageInfo
from brickyard.domain.validation import UNSAVED_POLICY, ClusterType, ClusterValidation, TryPolicy
from brickyard.features.policies.service import PolicyService
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL, SPARK_4
from brickyard.testing.clock import ManualClock
from tests.support.desk import ADMIN, ASK, USER, Desk
from tests.support.golden import Golden

DEFINITION = json.dumps(
    {
        "autoscale.max_workers": {"type": "range", "maxValue": 5},
        "num_workers": {"type": "range", "maxValue": 5, "isOptional": True},
        "spark_conf.a.b": {"type": "fixed", "value": "1", "hidden": True},
        "custom_tags.team": {"type": "allowlist", "values": ["x", "y"]},
        "init_scripts": {"type": "forbidden"},
    }
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "num_workers": st.sampled_from([None, -1, 0, 1, 5, 6]),
        "autoscale": st.sampled_from([None, AutoScale(min_workers=1, max_workers=2), AutoScale(min_workers=3, max_workers=1)]),
        "spark_version": st.sampled_from([SPARK_4.key, "auto:latest", "none", None]),
        "node_type_id": st.sampled_from(["small", "huge", None]),
        "autotermination_minutes": st.sampled_from([None, 0, 5, 60]),
        "custom_tags": st.sampled_from([None, {"team": "x"}, {"team": "z"}, {"": "v"}]),
        "spark_conf": st.sampled_from([None, {"a.b": "1"}, {"a.b": "2"}, {"spark.master": "yarn"}]),
        "single_user_name": st.sampled_from([None, "nobody@example.com"]),
        "runtime_engine": st.sampled_from([None, "PHOTON", "STANDARD"]),
        "idempotency_token": st.sampled_from([None, "t", "t" * 65]),
        "governed": st.booleans(),
        "apply_policy_default_values": st.sampled_from([None, True]),
    },
)


async def policy_of(store: Store, **fields: Any) -> str:
    policies = PolicyService(store=store, clock=ManualClock(), ids=Ids(), authorizer=Authorizer())
    return await policies.create(ADMIN, CreatePolicy(**{"name": "p", "definition": DEFINITION, **fields}))


@pytest.fixture
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opened = Store.open(f"sqlite:///{tmp_path_factory.mktemp('db') / 'test.db'}")
    yield opened
    opened.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(fields=SPECS)
def test_the_real_call_gives_the_same_verdict(sqlite: Store, fields: dict[str, Any]) -> None:
    async def scenario(desk: Desk) -> None:
        given_fields = dict(fields)
        if given_fields.pop("governed", False):
            given_fields["policy_id"] = sqlite.policy_id  # type: ignore[attr-defined] # kept there for this test
        request = msgspec.convert({**msgspec.to_builtins(ASK), **msgspec.to_builtins(given_fields)}, CreateCluster)
        before = (await desk.list()).get("clusters", [])
        refusal: ApiError | None = None
        verdict: ClusterValidation | None = None
        try:
            verdict = await desk.service.validate_create(ADMIN, request)
        except ApiError as error:
            refusal = error
        after = (await desk.list()).get("clusters", [])
        assert len(before) == len(after)
        try:
            made = await desk.service.create(ADMIN, request)
        except InvalidParameterValue as error:
            assert verdict is not None
            assert not verdict.valid
            assert any(each.message in error.message for each in verdict.errors)
            return
        except ApiError as error:
            assert refusal is not None
            assert (type(error), error.message) == (type(refusal), refusal.message)
            return
        assert verdict is not None
        assert verdict.valid, verdict.errors
        if not request.idempotency_token:
            view = await desk.get(made)
            effective = msgspec.to_builtins(verdict.effective)
            assert {name: view.get(name) for name in effective if name in view} == {
                name: value for name, value in effective.items() if name in view
            }

    if not hasattr(sqlite, "policy_id"):
        sqlite.policy_id = asyncio.run(policy_of(sqlite))  # type: ignore[attr-defined] # likewise
    asyncio.run(scenario(Desk(sqlite)))


class _Missing:
    """Files of which one does not exist."""

    async def trouble(self, caller: Caller, place: Place) -> str:
        return "does not exist" if place.name == "missing.sh" else ""


async def test_a_script_that_does_not_exist_is_a_warning_at_its_field(store: Store) -> None:
    service = ClusterService(
        store=store,
        clock=ManualClock(),
        ids=Ids(),
        node_types=lambda: [SMALL],
        runtimes=[SPARK_4],
        authorizer=Authorizer(),
        wake=lambda _: None,
        files=_Missing(),
    )
    scripts = [
        InitScriptInfo(workspace=WorkspaceStorageInfo(destination="/Shared/there.sh")),
        InitScriptInfo(workspace=WorkspaceStorageInfo(destination="")),  # a mistake, and no address
        InitScriptInfo(dbfs=DbfsStorageInfo(destination="dbfs:/missing.sh")),
    ]
    wrong = await service.validate_create(ADMIN, msgspec.structs.replace(ASK, init_scripts=scripts))
    assert [each.field for each in wrong.errors] == ["init_scripts"]
    fine = await service.validate_create(ADMIN, msgspec.structs.replace(ASK, init_scripts=[scripts[0], scripts[2]]))
    assert fine.valid
    assert [each.field for each in wrong.warnings] == ["init_scripts[2]"]
    assert [each.field for each in fine.warnings] == ["init_scripts[1]"]


async def test_what_the_policy_gives_is_told_with_mistakes_too(desk: Desk, store: Store) -> None:
    rules = {
        "node_type_id": {"type": "fixed", "value": "small"},
        "num_workers": {"type": "range", "maxValue": 5, "defaultValue": 3},
        "custom_tags.team": {"type": "allowlist", "values": ["x"]},
    }
    policy_id = await policy_of(store, definition=json.dumps(rules))
    asked = CreateCluster(policy_id=policy_id, spark_version=SPARK_4.key, apply_policy_default_values=True)
    verdict = await desk.service.validate_create(ADMIN, asked)
    assert [each.field for each in verdict.errors] == ["custom_tags.team"]
    assert verdict.effective is None
    assert verdict.under_policy is not None
    assert (verdict.under_policy.node_type_id, verdict.under_policy.num_workers) == ("small", 3)
    unruled = await desk.service.validate_create(ADMIN, msgspec.structs.replace(ASK, num_workers=-1))
    assert (unruled.valid, unruled.under_policy) == (False, None)


async def test_all_mistakes_come_at_once_with_their_fields(desk: Desk, store: Store) -> None:
    policy_id = await policy_of(store)
    request = CreateCluster(
        policy_id=policy_id,
        node_type_id="huge",
        num_workers=9,
        autotermination_minutes=5,
        custom_tags={"team": "z"},
        spark_conf={"a.b": "2"},
    )
    found = await desk.service.validate_create(ADMIN, request)
    assert not found.valid
    assert {each.field for each in found.errors} >= {
        "spark_version", "node_type_id", "autotermination_minutes", "num_workers", "custom_tags.team", "spark_conf.a.b",
    }  # fmt: skip
    assert found.effective is None
    assert {(each.field, each.value, each.hidden) for each in found.locks} == {
        ("spark_conf.a.b", "1", True),
        ("init_scripts", None, False),
    }
    assert all(each.reason.startswith("Policy p: ") for each in found.locks)


async def test_a_good_one_has_its_effective_specification_and_its_price(desk: Desk, store: Store) -> None:
    policy_id = await policy_of(store)
    request = msgspec.structs.replace(
        ASK,
        policy_id=policy_id,
        num_workers=None,
        autoscale=AutoScale(min_workers=1, max_workers=3),
        custom_tags={"team": "x"},
    )
    found = await desk.service.validate_create(ADMIN, request)
    assert found.valid, found.errors
    assert found.effective is not None
    assert found.effective.spark_conf == {"a.b": "1"}
    assert found.effective.autotermination_minutes == 120
    assert found.price_per_hour is not None
    assert found.price_per_hour.most == pytest.approx(2 * found.price_per_hour.least)
    assert found.price_per_hour.currency == "USD"
    assert not (await desk.list()).get("clusters")
    assert desk.woken == []


async def test_an_edit_is_only_tried(desk: Desk) -> None:
    name = await desk.create()
    await desk.bring_up(name)
    before = await desk.get(name)
    request = EditCluster(cluster_id=name, spark_version=ASK.spark_version, node_type_id="small", num_workers=7)
    found = await desk.service.validate_edit(ADMIN, request)
    assert found.valid
    assert found.effective is not None
    assert found.effective.num_workers == 7
    wrong = await desk.service.validate_edit(ADMIN, msgspec.structs.replace(request, num_workers=-7))
    assert [each.field for each in wrong.errors] == ["num_workers"]
    assert await desk.get(name) == before
    pending = await desk.create()
    with pytest.raises(InvalidState):
        await desk.service.validate_edit(ADMIN, msgspec.structs.replace(request, cluster_id=pending))


async def test_what_is_no_mistake_of_the_specification_is_answered_as_by_the_real_call(desk: Desk, store: Store) -> None:
    policy_id = await policy_of(store, name="one", definition="{}", max_clusters_per_user=1)
    request = msgspec.structs.replace(ASK, policy_id=policy_id)
    await desk.service.create(ADMIN, request)
    with pytest.raises(QuotaExceeded):
        await desk.service.validate_create(ADMIN, request)


def test_permissions_are_those_of_the_real_call(store: Store, golden: Golden) -> None:
    desk, nobody = Desk(store), msgspec.structs.replace(USER, entitlements=frozenset())
    for call in (desk.service.create, desk.service.validate_create):
        with golden.refused(PermissionDenied):
            asyncio.run(call(nobody, ASK))


SPEC = ClusterSpec(spark_version=SPARK_4.key, node_type_id="small", autoscale=AutoScale(min_workers=1, max_workers=2))


async def test_a_policy_is_tried_before_it_is_saved(desk: Desk, store: Store) -> None:
    policies = PolicyService(store=store, clock=ManualClock(), ids=Ids(), authorizer=Authorizer())

    async def saved() -> list[str]:
        return [each.policy_id for each in (await policies.list(ADMIN, ListPolicies())).policies or []]

    before = await saved()
    good = msgspec.structs.replace(SPEC, custom_tags={"team": "x"}, policy_id="nonsense")
    tried = await desk.service.try_policy(ADMIN, TryPolicy(definition=DEFINITION, cluster=good))
    assert tried.problems == []
    assert tried.verdict is not None
    assert tried.verdict.valid, tried.verdict.errors
    assert tried.verdict.effective is not None
    assert tried.verdict.effective.spark_conf == {"a.b": "1"}
    assert tried.verdict.price_per_hour is not None
    assert {(each.field, each.value) for each in tried.verdict.locks} == {("spark_conf.a.b", "1"), ("init_scripts", None)}
    refused = await desk.service.try_policy(ADMIN, TryPolicy(definition=DEFINITION, cluster=SPEC))
    assert refused.verdict is not None
    assert [each.field for each in refused.verdict.errors] == ["custom_tags.team"]
    family = TryPolicy(
        policy_family_id="shared-compute",
        policy_family_definition_overrides='{"custom_tags.by": {"type": "fixed", "value": "us"}}',
        cluster=SPEC,
    )
    merged = (await desk.service.try_policy(ADMIN, family)).verdict
    assert merged is not None
    assert "custom_tags.by" in {each.field for each in merged.locks}
    assert await saved() == before
    assert not (await desk.list()).get("clusters")


async def test_a_policy_is_tried_on_the_cluster_of_a_job(desk: Desk) -> None:
    rules = {"cluster_type": {"type": "fixed", "value": "job"}, "autotermination_minutes": {"type": "fixed", "value": 20}}
    only_jobs = json.dumps(rules | {"custom_tags.team": {"type": "fixed", "value": "x"}})

    async def verdict(kind: ClusterType) -> ClusterValidation:
        found = await desk.service.try_policy(ADMIN, TryPolicy(definition=only_jobs, cluster=SPEC, cluster_type=kind))
        assert found.verdict is not None
        return found.verdict

    interactive, job = await verdict(ClusterType.ALL_PURPOSE), await verdict(ClusterType.JOB)
    assert not interactive.valid
    assert [each.field for each in interactive.errors] == ["cluster_type"]
    assert job.valid, job.errors
    assert job.effective is not None
    assert job.effective.custom_tags == {"team": "x"}
    assert not job.effective.autotermination_minutes, "the cluster of a job ends with its run"
    assert not (await desk.list()).get("clusters")


async def test_a_policy_with_mistakes_is_told_all_of_them_with_their_paths(desk: Desk, golden: Golden) -> None:
    wrong = json.dumps({"nonsense": {"type": "fixed", "value": 1}, "num_workers": {"type": "range", "maxValue": "many"}})
    tried = await desk.service.try_policy(ADMIN, TryPolicy(definition=wrong, cluster=SPEC))
    assert tried.verdict is None
    assert [each.path for each in tried.problems] == ["nonsense", "num_workers"]
    text = await desk.service.try_policy(ADMIN, TryPolicy(definition="{", cluster=SPEC))
    assert [each.path for each in text.problems] == [""]
    golden(text.problems[0].message)
    with golden.refused(InvalidParameterValue):
        await desk.service.try_policy(ADMIN, TryPolicy(cluster=SPEC))
    with golden.refused(ResourceDoesNotExist):
        await desk.service.try_policy(ADMIN, TryPolicy(policy_family_id="none", cluster=SPEC))
    with golden.refused(PermissionDenied):
        await desk.service.try_policy(USER, TryPolicy(definition="{}", cluster=SPEC))


async def test_a_tried_policy_takes_no_name_and_no_turn(desk: Desk, store: Store) -> None:
    """Not even from a policy that has the name that a tried one has inside."""

    await policy_of(store, name=UNSAVED_POLICY)
    request = TryPolicy(definition="{}", cluster=SPEC)
    tried = await asyncio.gather(*(desk.service.try_policy(ADMIN, request) for _ in range(5)))
    assert all(each.verdict is not None and each.verdict.valid for each in tried)
