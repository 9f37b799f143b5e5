"""The decisions of the /v1/clusters dialect: sizes, fields of both dialects, and the progress of an operation."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from brickyard.domain.cluster import Cluster, StartProgress, Target
from brickyard.domain.node import Phase, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.snapshots import ClusterConfiguration, SnapshotRow, SnapshotStatus
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType
from brickyard.domain.v1.clusters import (
    AutoTerminate,
    CreateV1Cluster,
    Operation,
    OperationKind,
    PhaseStatus,
    StartV1Cluster,
    UpdateConfiguration,
    V1ClusterState,
)
from brickyard.plan.cluster import plan
from brickyard.plan.policy import Policy
from brickyard.plan.starts import next_incarnation
from brickyard.plan.v1.autoterminate import view
from brickyard.plan.v1.progress import operation_of, state_of, states_of
from brickyard.plan.v1.repeats import is_repeated, start_key
from brickyard.plan.v1.snapshots import problems_of_restore
from brickyard.plan.v1.storage import problems_of_storage
from brickyard.plan.v1.translate import Size, created, same_model, shortage, smallest, updated, wanted_types
from brickyard.testing.builders import NOW, RUNTIMES, SIZES, cluster, instance, up

FAILURE = TerminationReason(code=TerminationReasonCode.DRIVER_UNREACHABLE, type=TerminationReasonType.CLOUD_FAILURE)


def stopped(**fields: object) -> Cluster:
    ended = {"target": Target.TERMINATED, "ended": True, "terminated_ms": NOW + 9_000, "terminating_ms": NOW + 8_000}
    return msgspec.structs.replace(cluster(), **{**ended, **fields})


def sized(name: str, gpus: int, cores: float, memory_gb: float, model: str = "") -> NodeType:
    return NodeType(
        node_type_id=name,
        num_gpus=gpus,
        num_cores=cores,
        memory_mb=int(memory_gb * 1024),
        gpu_model=model,
        category="c",
    )


OFFERED = {
    each.node_type_id: each
    for each in (
        sized("cpu-4", 0, 4, 16),
        sized("cpu-8", 0, 8, 32),
        sized("memory-4", 0, 4, 64),
        sized("t4", 1, 4, 16, "Tesla T4"),
        sized("t4-4", 4, 48, 192, "Tesla T4"),
        sized("a100", 1, 12, 85, "NVIDIA A100-SXM4-40GB"),
    )
}
AMOUNTS = st.builds(Size, st.integers(0, 5), st.integers(0, 60), st.integers(0, 200), st.sampled_from(["", "t4", "A100", "H100"]))


@given(AMOUNTS)
def test_the_node_type_has_what_was_asked_for_and_none_that_has_is_smaller(size: Size) -> None:
    def holds(each: NodeType) -> bool:
        enough = each.num_cores >= size.cores and each.memory_mb >= size.memory_gb * 1024 and each.num_gpus >= size.gpus
        return enough and same_model(size.gpu_type, each.gpu_model)

    found = smallest(size, OFFERED)
    fitting = [each for each in OFFERED.values() if holds(each)]
    if found is None:
        assert not fitting
        return
    assert holds(found)
    best = (found.num_gpus, found.num_cores, found.memory_mb)
    assert all(best <= (each.num_gpus, each.num_cores, each.memory_mb) for each in fitting)


@pytest.mark.parametrize(
    ("size", "field"),
    [
        (Size(cores=1, memory_gb=999), "memory_gb"),
        (Size(cores=999, memory_gb=1), "cpu_cores"),
        (Size(gpus=99, memory_gb=1), "gpu_count"),
        (Size(gpus=2, gpu_type="a100"), "gpu_count"),
        (Size(gpus=1, gpu_type="h100"), "gpu_type"),
        (Size(cores=48, memory_gb=190, gpus=8), "gpu_count"),
        (Size(cores=48, gpus=1, gpu_type="a100"), "gpu_count"),
    ],
    ids=str,
)
def test_the_field_that_no_node_type_meets_is_named(size: Size, field: str) -> None:
    assert smallest(size, OFFERED) is None
    assert shortage(size, OFFERED)[0] == field


@given(
    env=st.dictionaries(st.sampled_from("ABCD"), st.text("xyz", max_size=3), max_size=4),
    updates=st.dictionaries(st.sampled_from("ABCD"), st.none() | st.text("uvw", max_size=3), max_size=4),
)
def test_environment_updates_merge_and_null_removes(env: dict[str, str], updates: dict[str, str | None]) -> None:
    before = cluster()
    before = msgspec.structs.replace(before, request=msgspec.structs.replace(before.request, spark_env_vars=env or None))
    spec, problems = updated(before, StartV1Cluster(cluster_id="c", environment_updates=updates), OFFERED)
    assert not problems
    wanted = {name: value for name, value in (env | updates).items() if value is not None}
    assert (spec.spark_env_vars or {}) == wanted
    same = msgspec.structs.replace(spec, spark_env_vars=before.request.spark_env_vars)
    assert same == before.request, "nothing else changes"


@given(minutes=st.integers(10, 10_000), before=st.integers(0, 10_000))
def test_idle_minutes_are_one_field_of_both_dialects(minutes: int, before: int) -> None:
    now = cluster()
    now = msgspec.structs.replace(now, spec=msgspec.structs.replace(now.spec, autotermination_minutes=before))

    def after(**asked: object) -> int | None:
        limits = AutoTerminate(**asked)  # type: ignore[arg-type] # keyword arguments of a struct
        spec, problems = updated(now, StartV1Cluster(cluster_id="c", auto_terminate_updates=limits), OFFERED)
        assert not problems
        shown = view(spec, now.workbench.auto_terminate)
        assert shown.enabled == bool(spec.autotermination_minutes)
        assert shown.idle_minutes == (spec.autotermination_minutes or None)
        return spec.autotermination_minutes

    assert after(idle_minutes=minutes) == minutes
    assert after(idle_minutes=None) == after(enabled=False) == 0
    assert after() == after(idle_minutes=UNSET) == before
    assert after(enabled=True) == (before or 120)


def test_a_size_that_is_not_named_stays() -> None:
    now = cluster(single=True)
    spec = msgspec.structs.replace(now.spec, node_type_id="memory-4", driver_node_type_id="memory-4")
    now = msgspec.structs.replace(now, spec=spec, request=spec)

    def chosen(**asked: int) -> str | None:
        update = UpdateConfiguration(**asked)  # type: ignore[arg-type] # likewise
        found, problems = updated(now, StartV1Cluster(cluster_id="c", update_configuration=update), OFFERED)
        return None if problems else found.node_type_id

    assert chosen(cpu_cores=2) == "memory-4"
    assert chosen(cpu_cores=6, memory_gb=20) == "cpu-8"
    assert chosen(gpu_count=1) == "a100"
    assert chosen(cpu_cores=10) == "a100"
    assert chosen(cpu_cores=10, gpu_count=0) == "a100", "fewer GPUs are not on offer with that much"
    assert chosen(memory_gb=500) is None
    assert chosen(cpu_cores=0) is None


def test_a_new_cluster_is_one_node_of_the_newest_runtime_that_isolates_users() -> None:
    spec, problems = created(CreateV1Cluster(name="abc", gpu_type="T4", gpu_count=1), OFFERED, RUNTIMES.values())
    assert not problems
    assert (spec.node_type_id, spec.is_single_node) == ("t4", True)
    assert spec.spark_version in RUNTIMES
    _, problems = created(CreateV1Cluster(name="a", gpu_count=2, ssh_enabled=True, region="x"), OFFERED, RUNTIMES.values())
    assert {each.field for each in problems} >= {"name", "gpu_type", "ssh_enabled", "region"}


def test_what_a_start_needs() -> None:
    now = cluster(num_workers=3)
    assert [each.node_type_id for each in wanted_types(now, now.request, SIZES)] == ["small"] * 4
    scaled = cluster(autoscale=(1, 9))
    assert len(wanted_types(scaled, scaled.request, SIZES)) == 2
    pooled = msgspec.structs.replace(now.request, instance_pool_id="p")
    assert wanted_types(now, pooled, SIZES) == []


def test_states() -> None:
    assert state_of(cluster()) is V1ClusterState.STARTING
    assert state_of(up(cluster())) is V1ClusterState.RUNNING
    assert state_of(cluster(target=Target.TERMINATED)) is V1ClusterState.STOPPING
    assert state_of(stopped()) is V1ClusterState.STOPPED
    assert state_of(stopped(termination_reason=FAILURE)) is V1ClusterState.ERROR
    assert states_of(V1ClusterState.ERROR) == states_of(V1ClusterState.STOPPED) == (State.TERMINATED,)
    assert states_of(V1ClusterState.PENDING) == ()


def last_operation(shown: Cluster, *, now: int, usual_ms: int | None = None) -> Operation:
    found = operation_of(shown, now=now, usual_ms=usual_ms)
    assert found is not None
    return found


def test_a_start_s_phases_are_recorded_by_passes_and_stay() -> None:
    now = cluster(single=True)
    started, times = now, []
    for at, phase in enumerate((None, Phase.PREPARING, Phase.STARTING, Phase.READY), start=1):
        nodes = [] if phase is None else [instance(now, role=Role.SINGLE, phase=phase)]
        started = plan(started, nodes, now=NOW + at, sizes=SIZES, policy=Policy()).cluster
        operation = last_operation(started, now=NOW + at, usual_ms=60_000)
        times.append((sum(each.status is PhaseStatus.COMPLETED for each in operation.phases), operation.estimated_seconds_left))
    assert times == [(1, 60), (3, 60), (4, 60), (6, None)]
    known = StartProgress(incarnation=1, acquired_ms=NOW + 2, configured_ms=NOW + 3, served_ms=NOW + 4)
    assert started.progress == known
    assert operation.status is PhaseStatus.COMPLETED
    assert plan(started, nodes, now=NOW + 99, sizes=SIZES, policy=Policy()).cluster.progress == known
    restarted = next_incarnation(started, now=NOW + 200, secret="s", connect_token="c", restarting=True)
    operation = last_operation(restarted, now=NOW + 201)
    assert (operation.kind, operation.phases[0].status) == (OperationKind.RESTART, PhaseStatus.IN_PROGRESS)


def test_a_cluster_that_came_up_before_times_were_kept_has_a_finished_start() -> None:
    operation = last_operation(up(cluster()), now=NOW)
    assert (operation.status, operation.progress_percent) == (PhaseStatus.COMPLETED, 100)
    node = instance(up(cluster(single=True)), role=Role.SINGLE)
    kept = plan(up(cluster(single=True)), [node], now=NOW + 5, sizes=SIZES, policy=Policy()).cluster
    assert kept.progress == StartProgress(), "times that nobody knows are not made up"


@pytest.mark.parametrize("acquired", [0, NOW + 5])
def test_a_failed_start_names_its_phase(acquired: int) -> None:
    progress = StartProgress(incarnation=1, acquired_ms=acquired)
    now = stopped(termination_reason=FAILURE, progress=progress, state_message="no driver")
    operation = last_operation(now, now=NOW + 10_000)
    assert (operation.kind, operation.status) == (OperationKind.START, PhaseStatus.FAILED)
    (broken,) = [each for each in operation.phases if each.status is PhaseStatus.FAILED]
    assert broken.name == ("updating_configuration" if acquired else "acquiring_instances")
    assert broken.message == "no driver"
    assert operation.estimated_seconds_left is None


def test_a_cluster_that_was_never_started_has_no_operation() -> None:
    assert operation_of(stopped(launch_started_ms=0), now=NOW) is None


def test_a_stop_is_an_operation_too() -> None:
    going = cluster(target=Target.TERMINATED, terminating_ms=NOW + 8_000)
    assert last_operation(going, now=NOW + 8_500).status is PhaseStatus.IN_PROGRESS
    ended = last_operation(stopped(), now=NOW + 10_000)
    assert (ended.kind, ended.status, ended.progress_percent) == (OperationKind.STOP, PhaseStatus.COMPLETED, 100)


def test_a_repeated_request() -> None:
    first = StartV1Cluster(cluster_id="c", environment_updates={"A": "1"})
    key = start_key(first)
    assert start_key(msgspec.structs.replace(first, wait_for_ready=True, timeout_minutes=3)) == key
    assert start_key(msgspec.structs.replace(first, environment_updates={"A": "2"})) != key
    begun = cluster()
    begun = msgspec.structs.replace(begun, workbench=msgspec.structs.replace(begun.workbench, start_key=key, start_incarnation=1))
    assert is_repeated(begun, key, given=False)
    assert not is_repeated(begun, "other", given=True)
    assert not is_repeated(up(begun), key, given=False)
    assert is_repeated(up(begun), key, given=True)
    assert not is_repeated(msgspec.structs.replace(begun, incarnation=2), key, given=True)


@pytest.mark.parametrize(
    ("asked", "now", "why"),
    [
        (None, 5, ""), (1, 0, ""), (5, 5, ""), (10, 5, ""), (20, 20, ""), (0, 0, "at least 1"), (-3, 0, "at least 1"),
        (4, 5, "only grows"), (11, 5, "may take 10"), (21, 20, "may take 10"),
    ],
)  # fmt: skip
def test_storage_grows_up_to_what_a_driver_may_take(asked: int | None, now: int, why: str) -> None:
    found = problems_of_storage("storage_gb", asked, now=now, most=10)
    assert [why in each.reason and bool(why) for each in found] == [True] * bool(why)


def test_a_snapshot_that_is_larger_than_the_storage_is_not_restored() -> None:
    size = ClusterConfiguration(
        gpu_type="", gpu_count=0, cpu_cores=1, memory_gb=1, node_type_id="small", num_workers=0, runtime=""
    )  # fmt: skip
    row = SnapshotRow(
        snapshot_id="s", cluster_id="c", owner="o", user_name="u", name="n", created_ms=1, configuration=size, tasked=False,
        status=SnapshotStatus.AVAILABLE, size_bytes=(2 << 30) + 1,
    )  # fmt: skip
    for storage_gb, problems in ((0, 0), (3, 0), (2, 1)):
        found = problems_of_restore(
            row.cluster_id, row.snapshot_id, row, field="restore_from_snapshot", max_bytes=1 << 40, storage_gb=storage_gb
        )
        assert len(found) == problems
        assert all("storage_gb, 2" in each.reason for each in found)
