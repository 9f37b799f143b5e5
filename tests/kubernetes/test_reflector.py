"""The watch behind `observe`: what it misses, it learns again; what it is told, it obeys."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import pytest

from brickyard.providers.kubernetes import objects
from brickyard.providers.kubernetes.api import SILENCE_S, Api, connected
from brickyard.providers.kubernetes.reflector import Reflector
from tests.kubernetes.apiserver import FIRST_BOOKMARK_S
from tests.kubernetes.cluster import NAMESPACE, Cluster
from tests.kubernetes.schemas import Document
from tests.kubernetes.store import Key
from tests.support.patience import PATIENCE_S, until

PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


def pod(name: str, label: str = "ours", **spec: object) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"brickyard.io/workspace": label}},
        "spec": {"containers": [{"name": "agent", "image": "none"}], "nodeSelector": {"no": "machine"}, **spec},
        "status": {"phase": "Pending"},
    }


@pytest.fixture
def reflector(cluster: Cluster) -> Iterator[Reflector]:
    client, _ = connected(kubeconfig=str(cluster.kubeconfig), context="")
    api = Api(client)
    made = Reflector(api, PATH, "brickyard.io/workspace=ours")
    cluster.add("pods", pod("first"))
    made.start()
    try:
        until(lambda: names(made) == {"first"}, "the first list")
        yield made
    finally:
        made.stop()
        api.close()


def names(of: Reflector) -> set[str] | None:
    found = of.pods()
    return None if found is None else set(found)


def has(of: Reflector, *wanted: str) -> None:
    until(lambda: names(of) == set(wanted), f"{wanted} in the copy, which has {names(of)}")


def lists(cluster: Cluster) -> int:
    return cluster.api.calls.count(("list", "pods"))


def test_changes_arrive_and_others_pods_do_not(cluster: Cluster, reflector: Reflector) -> None:
    cluster.add("pods", pod("theirs", label="theirs"))
    cluster.add("pods", pod("second"))
    has(reflector, "first", "second")
    cluster.change("pods", "first", lambda made: made["status"].update(phase="Running"))
    until(lambda: (reflector.pods() or {})["first"].status.phase == "Running")
    cluster.remove("pods", "first")
    has(reflector, "second")
    assert lists(cluster) == 1, "a watch told all of it"


def test_a_lost_connection_goes_on_from_where_it_was(cluster: Cluster, reflector: Reflector) -> None:
    cluster.on_loop(cluster.api.cut)
    cluster.add("pods", pod("second"))
    has(reflector, "first", "second")
    assert lists(cluster) == 1


@pytest.mark.parametrize("parity", [0, 1])
def test_410_gone_lists_again(cluster: Cluster, reflector: Reflector, parity: int) -> None:
    """The API server says it as an answer, or as an event."""
    slow = cluster.api.expect("watch", "pods", "slow")
    cluster.on_loop(cluster.api.cut)
    until(slow.met.is_set)
    cluster.remove("pods", "first")
    cluster.add("pods", pod("second"))

    def forget() -> None:
        cluster.api.watches = parity
        cluster.api.objects.forget()
        slow.go_on.set()

    cluster.on_loop(forget)
    has(reflector, "second")
    assert lists(cluster) == 2


def test_bookmarks_move_it_on_so_that_a_quiet_workspace_never_lists_again(cluster: Cluster, reflector: Reflector) -> None:
    cluster.api.bookmark_s = 0.05
    for _ in range(3):
        cluster.add("pods", pod("theirs", label="theirs"))
        cluster.remove("pods", "theirs")
    version = cluster.api.objects.version
    until(lambda: int(reflector._version) >= version, "a bookmark")  # no other sign of one is to be seen from outside
    cluster.on_loop(cluster.api.objects.forget)
    cluster.on_loop(cluster.api.cut)
    cluster.add("pods", pod("second"))
    has(reflector, "first", "second")
    assert lists(cluster) == 1


def test_while_the_api_server_is_away_the_copy_does_not_count(cluster: Cluster, reflector: Reflector) -> None:
    cluster.stop_api()
    until(lambda: names(reflector) is None)
    cluster.start_api()
    cluster.add("pods", pod("second"))
    has(reflector, "first", "second")


@pytest.mark.parametrize("kind", ["half", "drop"])
def test_an_answer_that_breaks_off_is_no_answer(cluster: Cluster, reflector: Reflector, kind: str) -> None:
    faults = [cluster.api.expect(verb, "pods", kind) for verb in ("watch", "list")]

    def lose() -> None:
        cluster.api.objects.add(Key("pods", NAMESPACE, "second"), pod("second"))
        cluster.api.objects.forget()
        cluster.api.cut()

    cluster.on_loop(lose)
    has(reflector, "first", "second")
    assert all(fault.met.is_set() for fault in faults)


def test_too_many_requests_are_answered_with_patience(cluster: Cluster, reflector: Reflector) -> None:
    refused = cluster.api.expect("watch", "pods", "refuse", code=429, headers={"Retry-After": "1"})
    cluster.on_loop(cluster.api.cut)
    until(refused.met.is_set)
    before = cluster.api.watches
    cluster.add("pods", pod("second"))
    has(reflector, "first", "second")
    assert cluster.api.watches == before + 1, "it came back once, when it was told to"


def test_stopping_does_not_wait_for_the_watch_to_end(cluster: Cluster, reflector: Reflector) -> None:
    stopping = threading.Thread(target=reflector.stop)
    stopping.start()
    stopping.join(PATIENCE_S / 4)
    assert not stopping.is_alive()


def test_a_quiet_watch_outlasts_the_first_bookmark(cluster: Cluster, reflector: Reflector) -> None:
    assert FIRST_BOOKMARK_S * 1.25 < SILENCE_S
    cluster.api.bookmark_s = 0.02
    before = cluster.api.watches
    told = cluster.api.objects.version
    for _ in range(3):
        cluster.add("pods", pod("theirs", label="theirs"))
        cluster.remove("pods", "theirs")
        version = cluster.api.objects.version
        until(lambda: int(reflector._version) >= version, "a bookmark")  # noqa: B023 - called in this turn
    assert told < int(reflector._version)
    assert cluster.api.watches <= before + 1, "no bookmark has ended the watch"
    assert lists(cluster) == 1


def test_an_event_that_cannot_be_read_has_everything_listed_again(cluster: Cluster, reflector: Reflector) -> None:
    cluster.change("pods", "first", lambda made: made["metadata"].update(labels={"brickyard.io/workspace": "ours", "n": 5}))
    until(lambda: lists(cluster) >= 2, "another list")
    cluster.change("pods", "first", lambda made: made["metadata"]["labels"].pop("n"))
    cluster.add("pods", pod("second"))
    has(reflector, "first", "second")


def structs() -> list[type[msgspec.Struct]]:
    found = [each for each in vars(objects).values() if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    return [each for each in found if each.__module__ == objects.__name__ and each is not objects.Event]


@pytest.mark.parametrize("kind", structs(), ids=lambda each: each.__name__)
def test_whatever_is_empty_may_be_null(kind: type[msgspec.Struct]) -> None:
    """As in `"containers": null` of a bookmark."""
    for field in msgspec.structs.fields(kind):
        if msgspec.inspect.multi_type_info([field.type])[0].__class__.__name__ in ("VarTupleType", "DictType", "ListType"):
            pytest.fail(f"{kind.__name__}.{field.name} refuses null")
