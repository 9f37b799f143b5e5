"""Stops and restarts that let finish what runs: how long, what ends them, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Instance, Target, public_state
from brickyard.domain.errors import InvalidState
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Failure, Phase, Role
from brickyard.domain.states import State
from brickyard.domain.v1.clusters import OperationKind, PhaseStatus, RestartV1Cluster, StopV1Cluster
from brickyard.plan import graceful
from brickyard.plan.changes import Asked, Secrets, permanently_delete, restart, terminate
from brickyard.plan.cluster import Plan, plan
from brickyard.plan.policy import Policy
from brickyard.plan.starts import begun_ms
from brickyard.plan.v1.graceful import DEFAULT_MINUTES, MOST_MINUTES, minutes_of, problems_of_grace
from brickyard.plan.v1.progress import operation_of
from brickyard.testing.builders import NOW, SIZES, cluster, instance, nodes, up
from tests.support.golden import Golden

MINUTE = 60_000
LATER = NOW + MINUTE
SECRETS = Secrets(spark="new", connect="new")


def asked(at: int = LATER) -> Asked:
    return Asked("ann@example.com", at)


def passes(of: Cluster, its: Sequence[Instance], at: int) -> Plan:
    return plan(of, list(its), now=at, sizes=SIZES, policy=Policy())


def after(done: Plan, its: Sequence[Instance]) -> list[Instance]:
    gone = {each.instance_id for each in done.removed}
    return [done.instances.get(each.instance_id, each) for each in its if each.instance_id not in gone]


def says(driver: Instance, **status: object) -> Instance:
    return msgspec.structs.replace(driver, status=msgspec.structs.replace(driver.status, **status))


def running() -> tuple[Cluster, list[Instance]]:
    of = up(cluster())
    return of, nodes(of, 2)


def waiting(grace_ms: int = 5 * MINUTE) -> tuple[Cluster, list[Instance]]:
    """A cluster that lets finish what runs, once its driver has been told so."""
    of, its = running()
    stopped = terminate(of, asked(), why="done", grace_ms=grace_ms).cluster
    told = passes(stopped, its, LATER)
    its = after(told, its)
    return told.cluster, [says(its[0], told_ms=LATER + 1), *its[1:]]


def phases(of: Cluster, at: int) -> dict[str, tuple[PhaseStatus, str]]:
    found = operation_of(of, now=at)
    assert found is not None
    return {each.name: (each.status, each.message) for each in found.phases}


def test_nodes_go_on_and_the_driver_is_told_once() -> None:
    of, its = running()
    stopped = terminate(of, asked(), why="done", grace_ms=5 * MINUTE).cluster
    assert public_state(stopped) is State.TERMINATING
    first = passes(stopped, its, LATER)
    assert first.due_ms == LATER + 5 * MINUTE
    (driver,) = first.instances.values()
    assert driver.assignment is not None
    assert (driver.role, driver.state, driver.assignment.closing) == (Role.DRIVER, InstanceState.REGISTERED, True)
    again = passes(first.cluster, after(first, its), LATER + 1)
    assert (again.instances, again.new, again.removed, again.events) == ({}, [], [], [])
    wanted = "Termination requested by ann@example.com: done; waiting up to 5 min for running commands to finish"
    assert again.cluster.state_message == wanted


@pytest.mark.parametrize("how", ["quiet", "failed", "gone", "late", "forced", "deleted"])
def test_a_wait_ends_with_what_it_waits_for_its_time_or_a_request(how: str, golden: Golden) -> None:
    of, (driver, *workers) = waiting()
    at = LATER + 2 * MINUTE
    if how == "quiet":
        driver = says(driver, quiet_ms=at)
    elif how == "failed":
        driver = says(driver, phase=Phase.FAILED, failure=Failure(code="DRIVER_UNREACHABLE", message="killed"))
    elif how == "gone":
        driver = msgspec.structs.replace(driver, state=InstanceState.GONE)
    elif how == "late":
        at = LATER + 5 * MINUTE
    elif how == "forced":
        of = terminate(of, asked(at)).cluster
    else:
        of = permanently_delete(of, asked(at)).cluster
    done = passes(of, [driver, *workers], at)
    left = after(done, [driver, *workers])
    assert left
    assert all(each.state is InstanceState.TERMINATING for each in left)
    assert done.cluster.workbench.graceful.over_ms == at
    said = done.cluster.workbench.graceful.said
    golden(said)
    golden(done.cluster.state_message)
    assert "waiting" not in done.cluster.state_message
    assert ("were ended" in done.cluster.state_message) == (how == "late")
    assert phases(done.cluster, at)["waiting_for_graceful_exit"] == (PhaseStatus.COMPLETED, said)


def test_phases_tell_what_was_told_waited_for_and_ended(golden: Golden) -> None:
    of, its = running()
    stopped = terminate(of, asked(), grace_ms=5 * MINUTE).cluster
    assert phases(stopped, LATER)["notifying_processes"][0] is PhaseStatus.IN_PROGRESS
    of, its = waiting()
    told = passes(of, its, LATER + 2)
    assert phases(told.cluster, LATER + 2)["notifying_processes"][0] is PhaseStatus.COMPLETED
    waits = phases(told.cluster, LATER + 2)["waiting_for_graceful_exit"]
    assert waits[0] is PhaseStatus.IN_PROGRESS
    golden(waits[1])
    assert phases(told.cluster, LATER + 2)["terminating_resources"][0] is PhaseStatus.PENDING
    done = passes(told.cluster, [says(its[0], quiet_ms=1), *its[1:]], LATER + 3)
    assert phases(done.cluster, LATER + 3)["terminating_resources"][0] is PhaseStatus.IN_PROGRESS
    over = passes(done.cluster, [], LATER + 4)
    assert {status for status, _ in phases(over.cluster, LATER + 4).values()} == {PhaseStatus.COMPLETED}


def test_a_cluster_that_is_not_up_has_nothing_to_wait_for() -> None:
    of = cluster()
    stopped = terminate(of, asked(), grace_ms=5 * MINUTE).cluster
    assert not stopped.workbench.graceful.pending
    done = passes(stopped, [instance(of, role=Role.DRIVER, phase=Phase.STARTING)], LATER)
    assert {each.state for each in done.instances.values()} == {InstanceState.TERMINATING}
    assert phases(done.cluster, LATER)["notifying_processes"][0] is PhaseStatus.COMPLETED


def restarting() -> tuple[Cluster, list[Instance]]:
    of, its = running()
    begun = restart(of, asked(), secrets=SECRETS).cluster
    return graceful.begun(begun, generation=of.incarnation, now=LATER, grace_ms=5 * MINUTE), its


def test_a_restart_waits_and_then_begins_with_its_time(golden: Golden) -> None:
    of, its = restarting()
    first = passes(of, its, LATER)
    assert public_state(first.cluster) is State.RESTARTING
    golden(first.cluster.state_message)
    assert [each.generation for each in first.instances.values()] == [1]
    shown = operation_of(first.cluster, now=LATER, usual_ms=9_000)
    assert shown is not None
    assert (shown.kind, shown.estimated_seconds_left) == (OperationKind.RESTART, None)
    its = after(first, its)
    at = LATER + 4 * MINUTE
    done = passes(first.cluster, [says(its[0], quiet_ms=at), *its[1:]], at)
    assert {each.generation for each in done.instances.values()} == {2}
    assert not any(each.assignment is not None and each.assignment.closing for each in done.instances.values())
    assert begun_ms(done.cluster) == at
    late = at + Policy().launch_timeout_ms
    assert passes(done.cluster, after(done, its), late - 1).cluster.target is Target.RUNNING
    assert passes(done.cluster, after(done, its), late).cluster.target is Target.TERMINATED


def test_a_stop_takes_over_the_wait_of_a_restart() -> None:
    of, its = restarting()
    stopped = terminate(of, asked(LATER + MINUTE), grace_ms=30 * MINUTE).cluster
    wait = stopped.workbench.graceful
    assert (wait.pending, wait.generation, wait.until_ms) == (True, 1, LATER + 5 * MINUTE)
    assert not passes(stopped, its, LATER + MINUTE).removed
    at_once = terminate(of, asked(LATER + MINUTE)).cluster
    done = passes(at_once, its, LATER + MINUTE)
    assert {each.state for each in done.instances.values()} == {InstanceState.TERMINATING}


def test_a_limit_that_is_reached_ends_a_restart_at_once() -> None:
    of, its = restarting()
    limits = msgspec.structs.replace(of.workbench.auto_terminate, at_ms=LATER + 1, by="ann@example.com")
    of = msgspec.structs.replace(of, workbench=msgspec.structs.replace(of.workbench, auto_terminate=limits))
    done = passes(of, its, LATER + 2)
    assert {each.state for each in done.instances.values()} == {InstanceState.TERMINATING}
    assert "auto_terminate.at" in done.cluster.state_message


Step = tuple[str, int | None]
requests = st.one_of(
    st.tuples(st.just("stop"), st.none() | st.integers(0, 30)),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("pass"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 10 * MINUTE), requests), max_size=8))
def test_a_wait_only_gets_shorter_and_nothing_ends_before_it(
    minutes: int, steps: list[tuple[int, tuple[str, int | None]]]
) -> None:
    of, its = waiting(minutes * MINUTE)
    at, until_ms = LATER, of.workbench.graceful.until_ms
    for pause, (what, number) in steps:
        at += pause
        if what == "stop":
            of = terminate(of, asked(at), grace_ms=None if number is None else number * MINUTE).cluster
        elif what == "delete":
            of = permanently_delete(of, asked(at)).cluster
        elif what == "restart":
            with pytest.raises(InvalidState):
                restart(of, asked(at), secrets=SECRETS)
        assert of.workbench.graceful.until_ms <= until_ms
        until_ms = of.workbench.graceful.until_ms
        done = passes(of, its, at)
        of, its = done.cluster, after(done, its)
        wait = of.workbench.graceful
        assert not done.new
        assert public_state(of) is State.TERMINATING
        assert wait.pending == all(each.state is InstanceState.REGISTERED for each in its)
        if wait.pending:
            assert at < wait.until_ms == done.due_ms
        shown = operation_of(of, now=at)
        assert shown is not None
        times = [time for each in shown.phases for time in (each.started_at, each.finished_at) if time is not None]
        assert times == sorted(times)


@given(st.booleans() | st.none(), st.integers(-100, 100) | st.none())
def test_what_a_request_asks_for(force: bool | None, minutes: int | None) -> None:
    for kind in (StopV1Cluster, RestartV1Cluster):
        request = kind(cluster_id="x", force=force, grace_period_minutes=minutes)
        if not problems_of_grace(request):
            assert 0 <= minutes_of(request) <= MOST_MINUTES
            assert (minutes_of(request) == 0) == (bool(force) or minutes == 0)
        else:
            assert minutes is not None
            assert not 0 <= minutes <= MOST_MINUTES or force
    assert minutes_of(StopV1Cluster(cluster_id="x")) == DEFAULT_MINUTES
