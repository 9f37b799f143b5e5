"""What requests do to a cluster's row: which are legal when, what they leave alone, and that asking twice is asking once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Target, public_state
from brickyard.domain.errors import ApiError, InvalidParameterValue, InvalidState
from brickyard.domain.events import ClusterSize, EventType
from brickyard.domain.requests import CreateCluster, ResizeCluster
from brickyard.domain.spec import AutoScale, ClusterSpec, Kind
from brickyard.domain.states import ClusterSource, State
from brickyard.plan import changes, liveedit
from brickyard.plan.changes import MAX_PINNED, Asked, Changed, Secrets
from brickyard.plan.spec import Offered
from brickyard.plan.specifying import plain_spec, specify
from brickyard.testing.builders import NOW, RUNTIMES, SIZES, cluster
from tests.support.golden import Golden

ASKED = Asked(user="someone@example.com", now=NOW + 5)
SECRETS = Secrets(spark="new", connect="newer")
OFFERED = Offered(node_types=SIZES, runtimes=RUNTIMES)
SINGLE = msgspec.structs.replace(cluster(single=True).request, kind=Kind.CLASSIC_PREVIEW)


def asked_for(of: Cluster, **fields: object) -> Cluster:
    """The cluster with a specification that holds, and other fields."""
    specified = specify(of.request, OFFERED, user=ASKED.user)
    return msgspec.structs.replace(of, spec=specified.spec, **fields)


CLUSTERS = st.builds(
    asked_for,
    st.one_of(
        st.integers(1, 9).map(lambda number: cluster(num_workers=number)),
        st.tuples(st.integers(1, 3), st.integers(4, 9)).map(lambda scale: cluster(autoscale=scale)),
        st.just(cluster(single=True, request=SINGLE)),
    ),
    target=st.sampled_from(Target),
    ended=st.booleans(),
    incarnation=st.just(3),
    ready_incarnation=st.sampled_from([0, 2, 3]),
    restarting=st.booleans(),
    sized=st.booleans(),
    grow_failures=st.sampled_from([0, 0, 2]),
    target_workers=st.integers(0, 9),
    pinned_ms=st.sampled_from([0, NOW - 9]),
    source=st.sampled_from([ClusterSource.API, ClusterSource.JOB]),
)
SIZES_ASKED: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.integers(0, 12).map(lambda number: {"num_workers": number}),
    st.tuples(st.integers(0, 5), st.integers(0, 9)).map(
        lambda scale: {"autoscale": AutoScale(min_workers=scale[0], max_workers=scale[1])}
    ),
    st.just({}),
)
Request = Callable[[Cluster], Changed]


def edit(of: Cluster, size: dict[str, Any], *, unless_same: bool = False) -> Changed:
    requested = msgspec.structs.replace(of.request, num_workers=None, autoscale=None)
    requested = msgspec.structs.replace(requested, **(size or {"num_workers": of.request.num_workers}))
    return changes.edit(of, requested, OFFERED, ASKED, secrets=SECRETS, unless_same=unless_same)


REQUESTS: dict[str, Callable[[Cluster, dict[str, Any]], Changed]] = {
    "start": lambda of, _: changes.start(of, ASKED, secrets=SECRETS),
    "restart": lambda of, _: changes.restart(of, ASKED, secrets=SECRETS),
    "terminate": lambda of, _: changes.terminate(of, ASKED),
    "shut down": lambda of, _: changes.shut_down(of, why="told to", now=ASKED.now),
    "permanently delete": lambda of, _: changes.permanently_delete(of, ASKED),
    "edit": edit,
    "update": lambda of, size: edit(of, size, unless_same=True),
    "resize": lambda of, size: changes.resize(of, ResizeCluster(cluster_id=of.cluster_id, **size), ASKED),
    "pin": lambda of, _: changes.pin(of, ASKED, pinned=1),
    "unpin": lambda of, _: changes.unpin(of, ASKED),
    "change owner": lambda of, _: changes.change_owner(of, "other@example.com", exists=True),
}
# The states in which a request is legal, and those that it may lead to. What is not here is legal in every state.
EDGES: dict[str, dict[State, set[State]]] = {
    "start": {State.TERMINATED: {State.PENDING}},
    "restart": {State.RUNNING: {State.RESTARTING}},
    "edit": {State.RUNNING: {State.RUNNING, State.RESTARTING}, State.TERMINATED: {State.TERMINATED}},
    "update": {State.RUNNING: {State.RUNNING, State.RESTARTING}, State.TERMINATED: {State.TERMINATED}},
    "resize": {State.RUNNING: {State.RUNNING, State.RESIZING}},
    "change owner": {State.TERMINATED: {State.TERMINATED}},
}
OF_USERS_ONLY = ("start", "restart", "edit", "update")  # a job cluster is started and configured by its run


def tried(name: str, of: Cluster, size: dict[str, Any]) -> Changed | ApiError:
    """What becomes of the request. Whatever that is, the cluster that was given is as it was."""
    before = msgspec.json.encode(of)
    try:
        return REQUESTS[name](of, size)
    except ApiError as error:
        return error
    finally:
        assert msgspec.json.encode(of) == before


@pytest.mark.parametrize("name", REQUESTS)
@given(CLUSTERS, SIZES_ASKED)
def test_requests_follow_the_legal_edges(name: str, of: Cluster, size: dict[str, Any]) -> None:
    result = tried(name, of, size)
    state = public_state(of)
    edges = EDGES.get(name)
    of_users = of.source is not ClusterSource.JOB or name not in OF_USERS_ONLY
    if isinstance(result, ApiError):
        assert result.message
        legal = of_users and (edges is None or state in edges)
        assert isinstance(result, InvalidParameterValue if legal else InvalidState) or name in ("edit", "update", "resize")
        return
    assert of_users
    after = public_state(result.cluster)
    if edges is not None:
        assert after in edges[state]
    elif name in ("terminate", "shut down", "permanently delete"):
        assert after is (State.TERMINATED if state is State.TERMINATED else State.TERMINATING)
    else:
        assert after is state


@pytest.mark.parametrize("name", REQUESTS)
@given(CLUSTERS, SIZES_ASKED)
def test_requests_change_what_is_desired_and_nothing_that_was_observed(name: str, of: Cluster, size: dict[str, Any]) -> None:
    result = tried(name, of, size)
    if isinstance(result, ApiError):
        return
    after = result.cluster
    kept = ("cluster_id", "source", "created_ms", "idempotency_token", "ready_incarnation", "terminated_ms", "version")
    assert [getattr(after, field) for field in kept] == [getattr(of, field) for field in kept]
    again = after.incarnation != of.incarnation
    assert after.incarnation == of.incarnation + again
    assert ((after.secret, after.connect_token) == tuple(SECRETS)) is again, "every incarnation has secrets of its own"
    assert all(event.cluster_id == of.cluster_id and event.timestamp == ASKED.now for event in result.events)
    if after == of and name != "edit":  # an edit is told of even if it says what holds
        assert not result.events


@pytest.mark.parametrize("name", ["terminate", "shut down", "pin", "unpin", "resize", "update", "change owner"])
@given(CLUSTERS, SIZES_ASKED)
def test_asking_twice_is_asking_once(name: str, of: Cluster, size: dict[str, Any]) -> None:
    first = tried(name, of, size)
    if isinstance(first, ApiError):
        return
    settled = msgspec.structs.replace(
        first.cluster, sized=True, ready_incarnation=first.cluster.incarnation if first.cluster.target is Target.RUNNING else 0
    )
    assert REQUESTS[name](settled, size) == Changed(settled)


@given(CLUSTERS, st.sampled_from(["start", "restart"]))
def test_a_start_begins_with_a_clean_slate(of: Cluster, name: str) -> None:
    result = tried(name, of, {})
    if isinstance(result, ApiError):
        return
    after = result.cluster
    assert (after.termination_reason, after.grow_failures, after.worker_failures, after.target_workers) == (None, 0, 0, 0)
    assert after.spec == of.spec
    assert [event.type for event in result.events] == [EventType.STARTING if name == "start" else EventType.RESTARTING]


def test_an_edit_of_a_running_cluster_is_two_events() -> None:
    of = asked_for(cluster(num_workers=2), ready_incarnation=1)
    result = edit(of, {"num_workers": 3})
    assert [event.type for event in result.events] == [EventType.EDITED, EventType.RESTARTING]
    assert result.events[0].details is not None
    assert (result.events[0].details.previous_cluster_size, result.events[0].details.cluster_size) == (
        ClusterSize(num_workers=2),
        ClusterSize(num_workers=3),
    )


LIVE: dict[str, Any] = {"autotermination_minutes": 45, "cluster_name": "renamed", "custom_tags": {"team": "b"}}
OTHERS: dict[str, Any] = {
    "num_workers": 3,
    "node_type_id": max(SIZES, key=lambda name: name != cluster().spec.node_type_id),
    "spark_conf": {"a.b": "1"},
    "spark_env_vars": {"A": "1"},
    "spark_version": max(RUNTIMES, key=lambda key: key != cluster().spec.spark_version),
}


@given(st.sets(st.sampled_from(sorted(LIVE))), st.sets(st.sampled_from(sorted(OTHERS))))
def test_an_edit_restarts_a_running_cluster_only_if_a_field_needs_it(live: set[str], others: set[str]) -> None:
    of = asked_for(cluster(num_workers=2), ready_incarnation=1)
    wanted = {name: LIVE[name] for name in live} | {name: OTHERS[name] for name in others}
    requested = msgspec.structs.replace(of.request, **wanted)
    specified = specify(requested, OFFERED, user=ASKED.user)
    needing = liveedit.restart_fields(of.spec, specified.spec)
    edited, events = changes.edit(of, requested, OFFERED, ASKED, secrets=SECRETS)
    assert not set(needing) & liveedit.LIVE_FIELDS
    assert bool(needing) is any(getattr(of.spec, name) != getattr(specified.spec, name) for name in others)
    assert (edited.spec, edited.request) == (specified.spec, requested)
    assert edited.incarnation == of.incarnation + bool(needing)
    assert public_state(edited) is (State.RESTARTING if needing else State.RUNNING)
    assert [event.type for event in events] == [EventType.EDITED, EventType.RESTARTING][: 1 + bool(needing)]


def test_the_fields_that_take_effect_live_are_fields_of_a_specification() -> None:
    assert set(ClusterSpec.__struct_fields__) >= liveedit.LIVE_FIELDS


def test_one_more_than_the_most_pins_is_refused_and_a_pinned_one_is_not(golden: Golden) -> None:
    of = cluster()
    with golden.refused(InvalidParameterValue, str(MAX_PINNED)):
        changes.pin(of, ASKED, pinned=MAX_PINNED)
    pinned = changes.pin(of, ASKED, pinned=MAX_PINNED - 1).cluster
    assert changes.pin(pinned, ASKED, pinned=MAX_PINNED) == Changed(pinned)


def test_a_pinned_cluster_is_not_removed(golden: Golden) -> None:
    of = changes.pin(cluster(), ASKED, pinned=0).cluster
    with golden.refused(InvalidParameterValue):
        changes.permanently_delete(of, ASKED)
    gone = changes.permanently_delete(changes.unpin(of, ASKED).cluster, ASKED).cluster
    assert (gone.deleted_ms, gone.target) == (ASKED.now, Target.TERMINATED)


def test_a_new_cluster_is_to_start() -> None:
    request = CreateCluster(
        cluster_name="c", spark_version="17.3.x-scala2.13", node_type_id="small", num_workers=2, idempotency_token="once"
    )
    specified = specify(plain_spec(request), OFFERED, user=ASKED.user)
    made, events = changes.create("0101-000000-aaaaaaaa", request, ASKED, specified=specified, secrets=SECRETS)
    assert public_state(made) is State.PENDING
    assert (made.idempotency_token, made.secret, made.connect_token) == ("once", *SECRETS)
    assert (made.request.driver_node_type_id, made.spec.driver_node_type_id) == (None, "small")
    assert [event.type for event in events] == [EventType.CREATING]
