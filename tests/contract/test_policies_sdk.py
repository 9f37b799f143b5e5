"""Cluster policies through the official SDK, on the simulated provider: what clients ask, and what they read back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, InvalidParameterValue, NotFound
from databricks.sdk.service.compute import (
    ClusterSpec,
    ListSortColumn,
    ListSortOrder,
    State,
)
from databricks.sdk.service.jobs import SparkPythonTask, SubmitTask

from tests.support.patience import until

RUNTIME = "17.3.x-scala2.13"
TYPE = "i3.xlarge"


@contextlib.contextmanager
def policy(w: WorkspaceClient, name: str, rules: dict[str, dict[str, object]], **fields: object) -> Iterator[str]:
    """A policy until the block is left."""
    made = w.cluster_policies.create(name=name, definition=json.dumps(rules), **fields)  # type: ignore[arg-type] # the SDK's own
    try:
        yield made.policy_id or ""
    finally:
        with contextlib.suppress(NotFound):
            w.cluster_policies.delete(made.policy_id or "")


def create(w: WorkspaceClient, policy_id: str, **fields: object) -> str:
    wanted = {"cluster_name": "governed", "spark_version": RUNTIME, "node_type_id": TYPE, "num_workers": 1} | fields
    made = w.clusters.create(policy_id=policy_id, **wanted)  # type: ignore[arg-type] # the SDK's own
    return str(made.response.cluster_id)  # type: ignore[attr-defined] # the SDK leaves the type of the response open


def test_a_policy_reads_back_as_it_was_written(w: WorkspaceClient) -> None:
    """What Terraform does after every write: read, and compare each field that it sent, the definition as text."""
    text = '{ "num_workers": {"type": "range", "maxValue": 2} }'
    made = w.cluster_policies.create(name="small", definition=text, description="few workers", max_clusters_per_user=3)
    assert made.policy_id
    found = w.cluster_policies.get(made.policy_id)
    assert (found.name, found.definition, found.description, found.max_clusters_per_user) == ("small", text, "few workers", 3)
    assert found.creator_user_name == w.current_user.me().user_name
    assert found.created_at_timestamp
    w.cluster_policies.edit(made.policy_id, name="smaller", definition=text)
    again = w.cluster_policies.get(made.policy_id)
    assert (again.name, again.description, again.max_clusters_per_user) == ("smaller", None, None)
    with pytest.raises(InvalidParameterValue, match="is taken"):
        w.cluster_policies.create(name="smaller", definition="{}")
    w.cluster_policies.delete(made.policy_id)
    with pytest.raises(NotFound, match=f"Can't find a cluster policy with id: {made.policy_id}."):
        w.cluster_policies.get(made.policy_id)


def test_families_and_their_policies(w: WorkspaceClient) -> None:
    families = {family.policy_family_id: family for family in w.policy_families.list()}
    assert set(families) == {"personal-vm", "shared-compute", "power-user", "job-cluster", "shared-data-science"}
    assert w.policy_families.get("personal-vm") == families["personal-vm"]
    defaults = {each.policy_family_id: each for each in w.cluster_policies.list() if each.is_default}
    assert set(defaults) == set(families)
    personal = defaults["personal-vm"]
    assert personal.policy_id
    with pytest.raises(InvalidParameterValue, match="cannot be deleted"):
        w.cluster_policies.delete(personal.policy_id)
    cluster_id = create(
        w, personal.policy_id, num_workers=None, spark_version="auto:latest-lts", apply_policy_default_values=True
    )
    found = w.clusters.get(cluster_id)
    assert found.spark_conf == {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}
    assert (found.num_workers, found.autotermination_minutes) == (0, 4320)
    assert "-scala" in (found.spark_version or "")
    w.clusters.permanent_delete(cluster_id)
    overrides = json.dumps({"node_type_id": {"type": "fixed", "value": TYPE}})
    made = w.cluster_policies.create(
        name="mine", policy_family_id="personal-vm", policy_family_definition_overrides=overrides
    ).policy_id
    assert made
    rules = json.loads(w.cluster_policies.get(made).definition or "")
    assert rules["node_type_id"] == {"type": "fixed", "value": TYPE}
    assert "num_workers" in rules
    w.cluster_policies.delete(made)
    names = [each.name for each in w.cluster_policies.list(sort_column=ListSortColumn.POLICY_NAME, sort_order=ListSortOrder.ASC)]
    assert names == sorted(names, key=str)


def test_a_policy_sets_and_limits(w: WorkspaceClient) -> None:
    rules: dict[str, dict[str, object]] = {
        "autotermination_minutes": {"type": "fixed", "value": 20},
        "num_workers": {"type": "range", "maxValue": 2},
        "node_type_id": {"type": "allowlist", "values": [TYPE], "defaultValue": TYPE},
        "custom_tags.team": {"type": "regex", "pattern": "[a-z]+", "defaultValue": "data"},
    }
    with policy(w, "limits", rules) as policy_id:
        with pytest.raises(InvalidParameterValue) as told:
            create(w, policy_id, num_workers=3, autotermination_minutes=60)
        assert str(told.value) == (
            'Validation failed for autotermination_minutes, the value must be 20 (is "60"); '
            'Validation failed for num_workers, the value must be at most 2 (is "3"); '
            "Validation failed for custom_tags, team must be present"
        )
        cluster_id = create(w, policy_id, node_type_id=None, apply_policy_default_values=True)
        found = w.clusters.get(cluster_id)
        assert (found.autotermination_minutes, found.node_type_id, found.policy_id) == (20, TYPE, policy_id)
        assert (found.custom_tags or {})["team"] == "data"
        until(lambda: w.clusters.get(cluster_id).state is State.RUNNING)
        with pytest.raises(InvalidParameterValue, match="num_workers, the value must be at most 2"):
            w.clusters.resize(cluster_id, num_workers=4)
        w.clusters.resize(cluster_id, num_workers=2)
        until(lambda: w.clusters.get(cluster_id).state is State.RUNNING)
        with pytest.raises(InvalidParameterValue, match="node_type_id, the value must be one of"):
            w.clusters.edit(
                cluster_id, spark_version=RUNTIME, node_type_id="i3.2xlarge", num_workers=1, policy_id=policy_id,
                custom_tags={"team": "x"},
            )  # fmt: skip
        with pytest.raises(InvalidParameterValue, match="num_workers, the value must be at most 2"):
            task = SubmitTask(
                task_key="t",
                spark_python_task=SparkPythonTask(python_file="dbfs:/none.py"),
                new_cluster=ClusterSpec(
                    spark_version=RUNTIME, node_type_id=TYPE, num_workers=5, policy_id=policy_id, custom_tags={"team": "x"}
                ),
            )
            w.jobs.submit(run_name="r", tasks=[task])
        w.clusters.permanent_delete(cluster_id)
    with pytest.raises(NotFound, match="Can't find a cluster policy"):
        create(w, policy_id)


def test_so_many_clusters_for_each_user(w: WorkspaceClient) -> None:
    with policy(w, "two", {}, max_clusters_per_user=2) as policy_id:
        first, second = create(w, policy_id), create(w, policy_id)
        with pytest.raises(BadRequest, match="has 2 active clusters under the policy two"):
            create(w, policy_id)
        w.clusters.delete(first).result()
        third = create(w, policy_id)
        with pytest.raises(BadRequest, match="has 2 active clusters"):
            w.clusters.start(first)
        for cluster_id in (first, second, third):
            w.clusters.permanent_delete(cluster_id)


def test_compliance(w: WorkspaceClient) -> None:
    with policy(w, "changes", {}) as policy_id:
        cluster_id, other = create(w, policy_id, num_workers=4), create(w, policy_id)
        assert w.policy_compliance_for_clusters.get_compliance(cluster_id).is_compliant
        until(lambda: {w.clusters.get(each).state for each in (cluster_id, other)} == {State.RUNNING})
        rules = {
            "num_workers": {"type": "range", "maxValue": 2},
            "custom_tags.team": {"type": "fixed", "value": "x", "hidden": True},
        }
        w.cluster_policies.edit(policy_id, name="changes", definition=json.dumps(rules))
        found = w.policy_compliance_for_clusters.get_compliance(cluster_id)
        assert found.is_compliant is False
        assert found.violations == {
            "num_workers": 'the value must be at most 2 (is "4")', "custom_tags.team": "must be present",
        }  # fmt: skip
        listed = {
            each.cluster_id: each.is_compliant
            for each in w.policy_compliance_for_clusters.list_compliance(policy_id, page_size=1)
        }
        assert listed == {cluster_id: False, other: False}
        dry = w.policy_compliance_for_clusters.enforce_compliance(cluster_id, validate_only=True)
        assert dry.has_changes
        assert w.clusters.get(cluster_id).num_workers == 4
        done = w.policy_compliance_for_clusters.enforce_compliance(cluster_id)
        assert [(each.field, each.previous_value, each.new_value) for each in done.changes or []] == [
            ("custom_tags.team", None, "x"), ("num_workers", "4", "2"),
        ]  # fmt: skip
        assert w.policy_compliance_for_clusters.get_compliance(cluster_id).is_compliant
        assert not w.policy_compliance_for_clusters.enforce_compliance(cluster_id).has_changes
        until(lambda: w.clusters.get(cluster_id).state is State.RUNNING)
        for each in (cluster_id, other):
            w.clusters.permanent_delete(each)


def test_a_wrong_policy_is_refused_when_it_is_saved(w: WorkspaceClient) -> None:
    wrong = json.dumps({"num_worker": {"type": "fixed", "value": 1}, "spark_version": {"type": "fixed"}})
    with pytest.raises(InvalidParameterValue, match=r"num_worker: .*spark_version: a rule of type fixed needs value"):
        w.cluster_policies.create(name="wrong", definition=wrong)
    for fields in (
        {},
        {"definition": "{}", "policy_family_id": "personal-vm"},
        {"policy_family_definition_overrides": "{}"},
        {"definition": "{}", "max_clusters_per_user": 0},
        {"definition": '{"dbus_per_hour": {"type": "range", "maxValue": 1}}'},
    ):
        with pytest.raises(InvalidParameterValue):
            w.cluster_policies.create(name="wrong", **fields)
    with pytest.raises(InvalidParameterValue, match="needs policy_id"):
        w.clusters.create(spark_version=RUNTIME, node_type_id=TYPE, num_workers=1, apply_policy_default_values=True)
