"""Cluster policies through the official SDK, on the simulated provider: what clients ask, and what they read back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, InvalidParameterValue, NotFound
from databricks.sdk.service.compute import (
    AutoScale,
    CloneCluster,
    ClusterSpec,
    EnforcePolicyComplianceForClusterEnforceMode,
    EnforcePolicyComplianceForClusterResponseEnforceResult,
    EventType,
    Library,
    LibraryInstallStatus,
    ListSortColumn,
    ListSortOrder,
    PendingEnforcementEnforcementStatus,
    PythonPyPiLibrary,
    State,
)
from databricks.sdk.service.jobs import SparkPythonTask, SubmitTask

from brickyard.providers.simulated import SimulatedProvider
from tests.support.golden import Golden
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


def test_a_policy_reads_back_as_it_was_written(w: WorkspaceClient, golden: Golden) -> None:
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
    with golden.refused(InvalidParameterValue):
        w.cluster_policies.create(name="smaller", definition="{}")
    w.cluster_policies.delete(made.policy_id)
    with golden.refused(NotFound, str(made.policy_id)):
        w.cluster_policies.get(made.policy_id)


def test_families_and_their_policies(w: WorkspaceClient, golden: Golden) -> None:
    families = {family.policy_family_id: family for family in w.policy_families.list()}
    assert set(families) == {"personal-vm", "shared-compute", "power-user", "job-cluster", "shared-data-science"}
    assert w.policy_families.get("personal-vm") == families["personal-vm"]
    assert [each.policy_family_id for each in w.policy_families.list(max_results=2)] == list(families), "two on a page"
    page = w.api_client.do("GET", "/api/2.0/policy-families", query={"max_results": 2})
    assert isinstance(page, dict) and len(page["policy_families"]) == 2
    for wrong in ({"max_results": -1}, {"page_token": "x"}):
        with pytest.raises(InvalidParameterValue):
            w.api_client.do("GET", "/api/2.0/policy-families", query=wrong)
    defaults = {each.policy_family_id: each for each in w.cluster_policies.list() if each.is_default}
    assert set(defaults) == set(families)
    personal = defaults["personal-vm"]
    assert personal.policy_id
    with golden.refused(InvalidParameterValue):
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


def test_a_policy_sets_and_limits(w: WorkspaceClient, golden: Golden) -> None:
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
        with golden.refused(InvalidParameterValue, "num_workers", "2"):
            w.clusters.resize(cluster_id, num_workers=4)
        w.clusters.resize(cluster_id, num_workers=2)
        until(lambda: w.clusters.get(cluster_id).state is State.RUNNING)
        with golden.refused(InvalidParameterValue, "node_type_id"):
            w.clusters.edit(
                cluster_id, spark_version=RUNTIME, node_type_id="i3.2xlarge", num_workers=1, policy_id=policy_id,
                custom_tags={"team": "x"},
            )  # fmt: skip
        with golden.refused(InvalidParameterValue, "num_workers", "2"):
            task = SubmitTask(
                task_key="t",
                spark_python_task=SparkPythonTask(python_file="dbfs:/none.py"),
                new_cluster=ClusterSpec(
                    spark_version=RUNTIME, node_type_id=TYPE, num_workers=5, policy_id=policy_id, custom_tags={"team": "x"}
                ),
            )
            w.jobs.submit(run_name="r", tasks=[task])
        w.clusters.permanent_delete(cluster_id)
    with golden.refused(NotFound):
        create(w, policy_id)


def test_so_many_clusters_for_each_user(w: WorkspaceClient, golden: Golden) -> None:
    with policy(w, "two", {}, max_clusters_per_user=2) as policy_id:
        first, second = create(w, policy_id), create(w, policy_id)
        with golden.refused(BadRequest, "two", "2"):
            create(w, policy_id)
        w.clusters.delete(first).result()
        third = create(w, policy_id)
        with golden.refused(BadRequest, "2"):
            w.clusters.start(first)
        for cluster_id in (first, second, third):
            w.clusters.permanent_delete(cluster_id)


def test_a_limit_on_the_price(w: WorkspaceClient, golden: Golden) -> None:
    """Two nodes of i3.xlarge cost 0.624 an hour."""
    with policy(w, "cheap", {"dbus_per_hour": {"type": "range", "maxValue": 0.7}}) as policy_id:
        too_dear = ("dbus_per_hour", "0.7", "0.936")
        with golden.refused(InvalidParameterValue, *too_dear):
            create(w, policy_id, num_workers=2)
        with golden.refused(InvalidParameterValue, *too_dear):
            create(w, policy_id, num_workers=None, autoscale=AutoScale(min_workers=1, max_workers=2))
        cluster_id = create(w, policy_id)
        until(lambda: w.clusters.get(cluster_id).state is State.RUNNING)
        with golden.refused(InvalidParameterValue, *too_dear):
            w.clusters.resize(cluster_id, num_workers=2)
        rules = json.dumps({"dbus_per_hour": {"type": "range", "maxValue": 0.5}})
        w.cluster_policies.edit(policy_id, name="cheap", definition=rules)
        found = w.policy_compliance_for_clusters.get_compliance(cluster_id)
        assert found.violations and found.violations.keys() == {"dbus_per_hour"}
        golden(found.violations["dbus_per_hour"], "0.5", "0.624")
        with golden.refused(InvalidParameterValue):
            w.policy_compliance_for_clusters.enforce_compliance(cluster_id)
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


def test_enforcement_that_waits_for_the_end(w: WorkspaceClient, golden: Golden) -> None:
    compliances, wait = w.policy_compliance_for_clusters, EnforcePolicyComplianceForClusterEnforceMode.WAIT_FOR_TERMINATION
    with policy(w, "later", {}) as policy_id:
        cluster_id = create(w, policy_id, num_workers=1)
        until(lambda: w.clusters.get(cluster_id).state is State.RUNNING)
        rules = {"custom_tags.team": {"type": "fixed", "value": "x"}}
        w.cluster_policies.edit(policy_id, name="later", definition=json.dumps(rules))
        done = compliances.enforce_compliance(cluster_id, enforce_mode=wait)
        assert done.enforce_result is EnforcePolicyComplianceForClusterResponseEnforceResult.DEFERRED
        pending = compliances.get_compliance(cluster_id).pending_enforcement
        assert pending is not None and pending.target_spec is not None and pending.initiate_time is not None
        assert pending.enforcement_status is PendingEnforcementEnforcementStatus.ACTIVE
        assert (pending.initiator_user, pending.target_spec.custom_tags) == (w.current_user.me().user_name, {"team": "x"})
        assert [(each.field, each.new_value) for each in pending.target_changes or []] == [("custom_tags.team", "x")]
        assert [each.pending_enforcement for each in compliances.list_compliance(policy_id)] == [pending]
        compliances.cancel_pending_cluster_enforcement(cluster_id)
        with golden.refused(NotFound):
            compliances.cancel_pending_cluster_enforcement(cluster_id)
        compliances.enforce_compliance(cluster_id, enforce_mode=wait)
        w.clusters.delete(cluster_id)
        until(lambda: w.clusters.get(cluster_id).state is State.TERMINATED)
        assert w.clusters.get(cluster_id).custom_tags == {"team": "x"}
        compliance = compliances.get_compliance(cluster_id)
        assert (compliance.is_compliant, compliance.pending_enforcement) == (True, None)
        scheduled, edited = EventType.DEFERRED_POLICY_ENFORCEMENT_SCHEDULED, EventType.EDITED
        events = [each.type for each in w.clusters.events(cluster_id, event_types=[scheduled, edited])]
        assert events == [edited, scheduled, scheduled]
        w.clusters.permanent_delete(cluster_id)


def test_a_wrong_policy_is_refused_when_it_is_saved(w: WorkspaceClient, golden: Golden) -> None:
    wrong = json.dumps({"num_worker": {"type": "fixed", "value": 1}, "spark_version": {"type": "fixed"}})
    with golden.refused(InvalidParameterValue, "num_worker", "spark_version"):
        w.cluster_policies.create(name="wrong", definition=wrong)
    for fields in (
        {},
        {"definition": "{}", "policy_family_id": "personal-vm"},
        {"policy_family_definition_overrides": "{}"},
        {"definition": "{}", "max_clusters_per_user": 0},
        {"definition": '{"dbus_per_hour": {"type": "fixed", "value": 1}}'},
        {"definition": '{"node_type_id": {"type": "allowlist", "values": ["a"], "defaultValue": "b"}}'},
    ):
        with pytest.raises(InvalidParameterValue):
            w.cluster_policies.create(name="wrong", **fields)
    with golden.refused(InvalidParameterValue, "policy_id"):
        w.clusters.create(spark_version=RUNTIME, node_type_id=TYPE, num_workers=1, apply_policy_default_values=True)


def test_a_specification_can_be_tried(w: WorkspaceClient, golden: Golden) -> None:
    """`validate_only` is ours: the SDK's generic call sends it."""
    policy = w.cluster_policies.create(name="tried", definition='{"num_workers": {"type": "range", "maxValue": 5}}')
    body = {
        "spark_version": "17.3.x-scala2.13",
        "node_type_id": "i3.xlarge",
        "policy_id": policy.policy_id,
        "validate_only": True,
    }
    clusters = len(list(w.clusters.list()))
    wrong: Any = w.api_client.do("POST", "/api/2.1/clusters/create", body=body | {"num_workers": 9, "autotermination_minutes": 1})
    assert not wrong["valid"]
    assert {each["field"] for each in wrong["errors"]} == {"num_workers", "autotermination_minutes"}
    nonsense = {
        "num_workers": 9,
        "autoscale": {"min_workers": "few"},
        "spark_conf": ["a"],
        "init_scripts": [{"dbfs": {"destination": 7}}],
        "data_security_mode": "OPEN",
        "custom_tags": {"a": "\x00"},
        "autotermination_minutes": 10**30,
        "enable_elastic_disk": "perhaps",
    }
    many: Any = w.api_client.do("POST", "/api/2.1/clusters/create", body=body | nonsense)
    found = {each["field"]: each["message"] for each in many["errors"]}
    assert found.keys() == {
        "num_workers", "autoscale.min_workers", "spark_conf", "init_scripts[0].dbfs.destination", "data_security_mode",
        "custom_tags", "autotermination_minutes", "enable_elastic_disk",
    }  # fmt: skip
    for field in ("num_workers", "spark_conf", "data_security_mode"):  # the rest is judged by the policy
        golden(found[field], field)
    with golden.refused(BadRequest, "autoscale.min_workers"):
        w.api_client.do("POST", "/api/2.1/clusters/create", body=body | nonsense | {"validate_only": False})
    good: Any = w.api_client.do("POST", "/api/2.1/clusters/create", body=body | {"num_workers": 2})
    assert good["valid"]
    assert good["errors"] == []
    assert good["effective"]["num_workers"] == 2
    assert good["price_per_hour"]["least"] == good["price_per_hour"]["most"] > 0
    assert len(list(w.clusters.list())) == clusters
    logged: Any = w.api_client.do("GET", "/api/2.0/audit-logs", query={"operation": "clusters.create"})
    assert not any(
        entry["status"] == 200 and policy.policy_id in entry["objects"].values() for entry in logged.get("entries", [])
    )


def pypi(package: str) -> Library:
    return Library(pypi=PythonPyPiLibrary(package=package))


def has(w: WorkspaceClient, cluster_id: str, *packages: str) -> None:
    """Waits until these packages, and no others, are installed."""

    def found() -> bool:
        now = list(w.libraries.cluster_status(cluster_id))
        done = all(each.status is LibraryInstallStatus.INSTALLED for each in now)
        return done and [each.library.pypi.package for each in now if each.library and each.library.pypi] == list(packages)

    until(found, f"{packages} are never installed: {list(w.libraries.cluster_status(cluster_id))}")


def test_clusters_of_a_policy_have_its_libraries_and_no_others(w: WorkspaceClient, golden: Golden) -> None:
    with policy(w, "libraries", {}, libraries=[pypi("a"), pypi("b"), pypi("a")]) as policy_id:
        assert w.cluster_policies.get(policy_id).libraries == [pypi("a"), pypi("b")]
        cluster_id = create(w, policy_id)
        w.clusters.wait_get_cluster_running(cluster_id)
        has(w, cluster_id, "a", "b")
        w.libraries.install(cluster_id, [pypi("a")])
        for change in (w.libraries.install, w.libraries.uninstall):
            with golden.refused(InvalidParameterValue):
                change(cluster_id, [pypi("a"), pypi("c")])
        task = SparkPythonTask(python_file="dbfs:/a.py")
        spec = ClusterSpec(policy_id=policy_id, spark_version=RUNTIME, node_type_id=TYPE, num_workers=1)
        for target in ({"existing_cluster_id": cluster_id}, {"new_cluster": spec}):
            wanted = SubmitTask(task_key="t", spark_python_task=task, libraries=[pypi("c")], **target)
            with golden.refused(InvalidParameterValue):
                w.jobs.submit(tasks=[wanted])

        w.cluster_policies.edit(policy_id, name="libraries", definition="{}", libraries=[pypi("b"), pypi("d")])
        has(w, cluster_id, "a", "b")
        w.clusters.restart_and_wait(cluster_id)
        has(w, cluster_id, "b", "d")
        w.cluster_policies.edit(policy_id, name="libraries", definition="{}")
        w.libraries.install(cluster_id, [pypi("d"), pypi("own")])
        w.clusters.restart_and_wait(cluster_id)
        has(w, cluster_id, "d", "own")
        w.cluster_policies.edit(policy_id, name="libraries", definition="{}", libraries=[pypi("e")])
        w.clusters.delete_and_wait(cluster_id)
        w.clusters.start_and_wait(cluster_id)
        has(w, cluster_id, "e")
        w.clusters.permanent_delete(cluster_id)
    for bad, said in ([Library(egg="dbfs:/a.egg")], "libraries[0].egg"), ([pypi(f"p{n}") for n in range(501)], "500"):
        with golden.refused(InvalidParameterValue, said):
            w.cluster_policies.create(name="bad", definition="{}", libraries=bad)


def test_a_policys_library_that_failed_is_tried_again(w: WorkspaceClient, machines: SimulatedProvider) -> None:
    machines.knobs.bad_libraries = frozenset({"flaky"})
    with policy(w, "flaky", {}, libraries=[pypi("flaky")]) as policy_id:
        cluster_id = create(w, policy_id)
        until(lambda: [each.status for each in w.libraries.cluster_status(cluster_id)] == [LibraryInstallStatus.FAILED])
        machines.knobs.bad_libraries = frozenset()
        w.libraries.install(cluster_id, [pypi("flaky")])
        has(w, cluster_id, "flaky")
        with pytest.raises(InvalidParameterValue, match="set by the cluster policy flaky"):
            w.libraries.uninstall(cluster_id, [pypi("flaky")])
        w.clusters.permanent_delete(cluster_id)


def test_a_job_cluster_under_a_policy_gets_its_libraries(w: WorkspaceClient) -> None:
    with policy(w, "for jobs", {}, libraries=[pypi("a")]) as policy_id:
        spec = ClusterSpec(policy_id=policy_id, spark_version=RUNTIME, node_type_id=TYPE, num_workers=1)
        task = SubmitTask(
            task_key="t", spark_python_task=SparkPythonTask(python_file="dbfs:/a.py"), libraries=[pypi("a")], new_cluster=spec
        )
        run_id = int(w.jobs.submit(tasks=[task]).run_id)

        def made() -> str | None:
            run = w.jobs.get_run(run_id)
            instance = run.tasks[0].cluster_instance if run.tasks else None
            return instance.cluster_id if instance else None

        cluster_id = until(made, "the run gets no cluster")
        found = [each.library for each in w.libraries.cluster_status(cluster_id)]
        assert found == [pypi("a")]
        w.jobs.cancel_run(run_id)


def test_a_clone_leaves_the_libraries_of_a_policy_behind(w: WorkspaceClient) -> None:
    with policy(w, "cloned", {}, libraries=[pypi("a")]) as policy_id:
        source = create(w, policy_id)
        clone = w.clusters.create(
            spark_version=RUNTIME, node_type_id=TYPE, num_workers=1, clone_from=CloneCluster(source_cluster_id=source)
        )
        cluster_id = str(clone.response.cluster_id)  # type: ignore[attr-defined] # the SDK leaves the type of the response open
        assert list(w.libraries.cluster_status(cluster_id)) == []
        for each in (source, cluster_id):
            w.clusters.permanent_delete(each)
