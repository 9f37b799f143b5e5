"""Init scripts in specifications, assignments and events; the order of global ones."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Instance, LaunchError
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.events import EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Failure, Phase, Role
from brickyard.domain.places import parse
from brickyard.domain.scripts import GlobalScriptRef, InitScript, ScriptResult, ScriptsReport, ScriptStatus
from brickyard.domain.spec import InitScriptInfo
from brickyard.domain.terminations import TerminationReasonCode, TerminationReasonType
from brickyard.plan.cluster import Plan, plan
from brickyard.plan.policy import Policy
from brickyard.plan.scripts import check_global_name, check_global_script, check_init_scripts, moved, place_of
from brickyard.testing.builders import NOW, SIZES, cluster, instance
from tests.support.golden import Golden

OK = ScriptResult(status=ScriptStatus.SUCCEEDED, seconds=2)


def _info(field: str, destination: str, **more: str) -> InitScriptInfo:
    return msgspec.convert({field: {"destination": destination, **more}}, InitScriptInfo)


@pytest.mark.parametrize(
    ("info", "address"),
    [
        (_info("dbfs", "dbfs:/init-scripts/setup.sh"), "dbfs:/init-scripts/setup.sh"),
        (_info("volumes", "/Volumes/c/s/v/setup.sh"), "/Volumes/c/s/v/setup.sh"),
        (_info("volumes", "dbfs:/Volumes/c/s/v/setup.sh"), "/Volumes/c/s/v/setup.sh"),
        (_info("workspace", "/Users/me@x.y/setup.sh"), "/Workspace/Users/me@x.y/setup.sh"),
        (_info("workspace", "/Workspace/Users/me@x.y/setup.sh"), "/Workspace/Users/me@x.y/setup.sh"),
        (_info("workspace", "workspace:/setup.sh"), "/Workspace/setup.sh"),
        (_info("file", "file:/my/local/file.sh"), "file:/my/local/file.sh"),
        (_info("s3", "s3://bucket/a.sh", region="us-west-2"), "s3://bucket/a.sh"),
        (_info("abfss", "abfss://box@account.dfs.core.windows.net/a.sh"), "abfss://box@account.dfs.core.windows.net/a.sh"),
        (_info("gcs", "gs://bucket/a.sh"), "gs://bucket/a.sh"),
    ],
)
def test_every_source_has_a_place(info: InitScriptInfo, address: str) -> None:
    assert place_of(info).address == address


@pytest.mark.parametrize(
    "scripts",
    [
        [InitScriptInfo()],
        [msgspec.convert({"dbfs": {}, "file": {}}, InitScriptInfo)],
        [_info("dbfs", "dbfs:/a.sh"), _info("dbfs", "")],
        [_info("dbfs", "dbfs:/a/../b.sh")],
        [_info("dbfs", "/Workspace/a.sh")],
        [_info("workspace", "dbfs:/a.sh")],
        [_info("dbfs", "dbfs:/")],
        [_info("dbfs", "dbfs:/a/")],
        [_info("s3", "s3://bucket/a.sh")],
        [_info("s3", "s3://bucket/a.sh", region="x", kms_key="k")],
        [_info("s3", "s3://bucket/a.sh", endpoint="localhost")],
        [_info("dbfs", "dbfs:/a.sh")] * 11,
    ],
)
def test_what_is_refused(scripts: list[InitScriptInfo], golden: Golden) -> None:
    with golden.refused(InvalidParameterValue):
        check_init_scripts(scripts)


# ── a pass ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _cluster(num_workers: int = 1) -> Cluster:
    of = cluster(num_workers=num_workers)
    spec = msgspec.structs.replace(of.spec, init_scripts=[_info("dbfs", "dbfs:/a.sh")])
    return msgspec.structs.replace(of, spec=spec, global_scripts=(GlobalScriptRef(script_id="7", name="proxy", digest="d"),))


def _node(of: Cluster, role: Role, *results: ScriptResult, running: bool = False, **changes: Any) -> Instance:
    node = instance(of, role=role, phase=changes.pop("phase", Phase.PREPARING))
    report = ScriptsReport(running=running, results=results)
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, scripts=report, host="127.0.0.1", **changes))


def _plan(of: Cluster, *nodes: Instance) -> Plan:
    return plan(of, nodes, now=NOW, sizes=SIZES, policy=Policy())


def test_an_assignment_names_global_scripts_first() -> None:
    of = _cluster()
    driver = instance(of, role=Role.DRIVER)
    decided = _plan(msgspec.structs.replace(of, incarnation=2), driver)
    told = decided.instances[driver.instance_id].assignment
    assert told is not None
    assert told.init_scripts == (
        InitScript(name="proxy", script_id="7", digest="d"),
        InitScript(name="a.sh", place=parse("dbfs:/a.sh")),
    )


def test_events_tell_once_of_the_start_and_once_of_the_end() -> None:
    of = _cluster(0)
    begun = _plan(of, _node(of, Role.DRIVER, running=True))
    (started,) = begun.events
    assert started.type is EventType.INIT_SCRIPTS_STARTED
    assert msgspec.to_builtins(started.details) == {
        "init_scripts": {
            "global": [{"file": {"destination": "global-init-scripts/7/proxy"}}],
            "cluster": [{"dbfs": {"destination": "dbfs:/a.sh"}}],
        }
    }
    ended = _plan(begun.cluster, _node(of, Role.DRIVER, OK, OK))
    (finished,) = ended.events
    assert finished.type is EventType.INIT_SCRIPTS_FINISHED
    assert finished.details.init_scripts is not None
    assert finished.details.init_scripts.reported_for_node == "127.0.0.1"
    assert msgspec.to_builtins(finished.details.init_scripts.cluster) == [
        {"dbfs": {"destination": "dbfs:/a.sh"}, "status": "SUCCEEDED", "execution_duration_seconds": 2}
    ]
    assert _plan(ended.cluster, _node(of, Role.DRIVER, OK, OK)).events == []
    both = _plan(of, _node(of, Role.DRIVER, OK, OK))
    assert [event.type for event in both.events] == [EventType.INIT_SCRIPTS_STARTED, EventType.INIT_SCRIPTS_FINISHED]


@pytest.mark.parametrize("code", [TerminationReasonCode.INIT_SCRIPT_FAILURE, TerminationReasonCode.GLOBAL_INIT_SCRIPT_FAILURE])
def test_a_script_that_fails_on_the_driver_ends_the_cluster(code: TerminationReasonCode, golden: Golden) -> None:
    of = _cluster(0)
    bad = ScriptResult(status=ScriptStatus.FAILED_EXECUTION, message="exit code 1")
    why = "init script 2 of 2, dbfs:/a.sh, failed: exit code 1"
    failure = Failure(code=code.value, message=why, log_tail="no such package")
    decided = _plan(of, _node(of, Role.DRIVER, OK, bad, phase=Phase.FAILED, failure=failure))
    assert [event.type for event in decided.events] == [
        EventType.INIT_SCRIPTS_STARTED, EventType.INIT_SCRIPTS_FINISHED, EventType.TERMINATING,
    ]  # fmt: skip
    reason = decided.cluster.termination_reason
    assert reason is not None
    assert (reason.code, reason.type) == (code, TerminationReasonType.CLIENT_ERROR)
    golden(decided.cluster.state_message, why, failure.log_tail)


def test_a_script_that_keeps_failing_on_workers_ends_a_start() -> None:
    of = _cluster(1)
    failure = Failure(code="INIT_SCRIPT_FAILURE", message="init script 2 of 2, dbfs:/a.sh, failed")
    bad = ScriptResult(status=ScriptStatus.FAILED_EXECUTION, message="exit code 1")
    driver = instance(of, role=Role.DRIVER, phase=Phase.READY)
    finished = 0
    for _ in range(Policy().max_worker_failures):
        worker = _node(of, Role.WORKER, OK, bad, phase=Phase.FAILED, failure=failure)
        decided = _plan(of, driver, worker)
        of = decided.cluster
        finished += sum(event.type is EventType.INIT_SCRIPTS_FINISHED for event in decided.events)
    assert of.termination_reason is not None
    assert of.termination_reason.code is TerminationReasonCode.INIT_SCRIPT_FAILURE
    assert finished == Policy().max_worker_failures


REPORTS = st.sampled_from(["silent", "begins", "succeeds", "fails", "dies", "ready", "gone", "refused"])


@given(st.lists(st.tuples(st.integers(min_value=0, max_value=3), REPORTS, st.booleans()), max_size=25))
@example([(1, "fails", False), (1, "refused", True)])  # a launch that failed for its caller, though the agent had started
def test_each_nodes_end_of_scripts_is_told_once_and_after_the_start(steps: list[tuple[int, str, bool]]) -> None:
    """Whatever nodes report, in whatever order, while workers fail, are lost and are replaced."""
    bad = ScriptResult(status=ScriptStatus.FAILED_EXECUTION, message="exit code 1")
    of, count = _cluster(2), 0
    known: dict[str, Instance] = {}
    told: list[tuple[EventType, str]] = []
    failed = set[str]()
    for which, report, looks in [(0, "silent", True), *steps, (0, "silent", True)]:
        if known:
            node = list(known.values())[which % len(known)]
            status = msgspec.structs.replace(node.status, host="127.0.0.1")
            if report == "gone":
                node = msgspec.structs.replace(node, state=InstanceState.GONE, lost="" if which else "it vanished")
            elif report == "refused":
                node = msgspec.structs.replace(node, launch_error=LaunchError(kind="TransientError", message="busy"))
            elif report == "begins":
                status = msgspec.structs.replace(status, scripts=ScriptsReport(running=True))
            elif report == "succeeds":
                status = msgspec.structs.replace(status, scripts=ScriptsReport(results=(OK, OK)))
            elif report == "ready":
                status = msgspec.structs.replace(status, phase=Phase.READY)
            elif report in ("fails", "dies"):
                code = "INIT_SCRIPT_FAILURE" if report == "fails" else "WORKER_SETUP_FAILURE"
                scripts = ScriptsReport(results=(OK, bad if report == "fails" else OK))
                status = msgspec.structs.replace(
                    status, scripts=scripts, phase=Phase.FAILED, failure=Failure(code=code, message="it failed")
                )
                if report == "fails":
                    failed.add(node.instance_id)
            known[node.instance_id] = msgspec.structs.replace(node, status=status)
        if not looks:
            continue
        decided = _plan(of, *known.values())
        of = decided.cluster
        known |= decided.instances
        for gone in decided.removed:
            known.pop(gone.instance_id, None)
        for new in decided.new:
            count += 1
            made = instance(of, role=new.role, number=count, phase=Phase.PREPARING)
            known[made.instance_id] = made
        told += [(each.type, each.details.instance_id or "") for each in decided.events if "INIT" in each.type]
    started = [kind for kind, _ in told if kind is EventType.INIT_SCRIPTS_STARTED]
    finished = [node for kind, node in told if kind is EventType.INIT_SCRIPTS_FINISHED]
    assert len(started) <= 1
    assert not told or told[0][0] is EventType.INIT_SCRIPTS_STARTED
    assert len(set(finished)) == len(finished)
    assert sum("driver" in node for node in finished) <= 1
    assert {node for node in finished if "worker" in node} <= failed, "of workers, only those on which a script failed"


def test_workers_with_scripts_learn_the_drivers_address_before_its_master() -> None:
    of = _cluster(1)
    driver, worker = _node(of, Role.DRIVER, running=True, master_url=""), instance(of, role=Role.WORKER, phase=Phase.PREPARING)
    assert worker.assignment is not None
    worker = msgspec.structs.replace(
        worker, assignment=msgspec.structs.replace(worker.assignment, master_url="", init_scripts=(InitScript(name="a.sh"),))
    )
    told = _plan(of, driver, worker).instances[worker.instance_id].assignment
    assert told is not None
    assert (told.driver_host, told.master_url, told.version) == (
        "127.0.0.1",
        "",
        worker.assignment.version + 1 if worker.assignment else 0,
    )


# ── global init scripts ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_positions_are_as_documented(golden: Golden) -> None:
    assert moved(["a", "b", "c"], "new", None) == ["a", "b", "c", "new"]
    assert moved(["a", "b", "c"], "new", 1) == ["a", "new", "b", "c"]
    assert moved(["a", "b", "c"], "new", 3) == moved(["a", "b", "c"], "new", 99) == ["a", "b", "c", "new"]
    assert moved(["a", "b", "c"], "a", 2) == moved(["a", "b", "c"], "a", 7) == ["b", "c", "a"]
    assert moved(["a", "b", "c"], "c", 0) == ["c", "a", "b"]
    assert moved(["a", "b", "c"], "b", None) == ["a", "b", "c"]
    with golden.refused(InvalidParameterValue):
        moved([], "new", -1)


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.sampled_from("abcdefghi"), st.none() | st.integers(0, 12))
def test_no_move_loses_or_doubles_a_script(order: list[str], script_id: str, position: int | None) -> None:
    after = moved(order, script_id, position)
    assert sorted(after) == sorted({*order, script_id})
    assert [each for each in after if each != script_id] == [each for each in order if each != script_id]
    if position is not None:
        assert after.index(script_id) == min(position, len(after) - 1)


def test_names_and_contents_are_checked() -> None:
    assert check_global_script(base64.b64encode(b"x" * 65536).decode()) == b"x" * 65536
    for script, why in (
        (base64.b64encode(b"x" * 65537).decode(), "at most 65536"), ("", "empty"), ("#!/bin/sh", "base64"),
    ):  # fmt: skip
        with pytest.raises(InvalidParameterValue, match=why):
            check_global_script(script)
    for name in ("", "  ", "x" * 256, "a\nb"):
        with pytest.raises(InvalidParameterValue, match="printable"):
            check_global_name(name)
