"""Lists of clusters: filters, orders, pages in both directions."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.access import EVERYTHING, Grant, ObjectKind, Permission, Place, Visible
from brickyard.domain.cluster import Target
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.libraries import ClusterLibrary, Library, PythonPyPiLibrary
from brickyard.domain.pagetokens import cluster_cursor, event_cursor
from brickyard.domain.queries import ClusterFilter, ClusterOrder, ClusterPosition, ClusterSort
from brickyard.domain.requests import ClusterId, ListClusters, ListClustersFilterBy, ListClustersSortBy
from brickyard.domain.spec import ClientsTypes, WorkloadType
from brickyard.domain.states import ClusterSource, ListClustersSortByDirection, ListClustersSortByField, State
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import NOW, cluster
from tests.support.databases import both_databases, empty_sqlite
from tests.support.desk import ADMIN, Desk, refused
from tests.support.golden import Golden

BY_NAME = ListClustersSortBy(field=ListClustersSortByField.CLUSTER_NAME)


def ids(page: dict[str, object]) -> list[str]:
    clusters = page["clusters"]
    assert isinstance(clusters, list)
    return [item["cluster_id"] for item in clusters]


async def test_pages_forth_and_back(desk: Desk) -> None:
    names = [await desk.create() for _ in range(7)][::-1]
    pages = [await desk.list(page_size=3)]
    while token := pages[-1].get("next_page_token"):
        pages.append(await desk.list(page_size=3, page_token=token))
    assert [ids(page) for page in pages] == [names[:3], names[3:6], names[6:]]
    assert "prev_page_token" not in pages[0]
    middle = await desk.list(page_size=3, page_token=pages[2]["prev_page_token"])
    first = await desk.list(page_size=3, page_token=middle["prev_page_token"])
    assert (ids(middle), ids(first)) == (names[3:6], names[:3])
    assert "prev_page_token" not in first
    assert ids(await desk.list(page_size=3, page_token=first["next_page_token"])) == names[3:6]
    assert ids(await desk.list(paged=False)) == names


async def test_clusters_that_come_and_go_shift_no_page(desk: Desk) -> None:
    names = [await desk.create() for _ in range(6)][::-1]
    page = await desk.list(page_size=2)
    await desk.create()
    await desk.service.permanent_delete(ADMIN, ClusterId(cluster_id=names[1]))
    await desk.service.permanent_delete(ADMIN, ClusterId(cluster_id=names[2]))
    assert ids(await desk.list(page_size=2, page_token=page["next_page_token"])) == names[3:5]


async def test_sizes_of_pages(desk: Desk, golden: Golden) -> None:
    for _ in range(21):
        await desk.create()
    assert len(ids(await desk.list())) == 20
    assert len(ids(await desk.list(page_size=0))) == 20
    assert len(ids(await desk.list(page_size=10_000))) == 21
    golden(await refused(InvalidParameterValue, desk.service.list(ADMIN, ListClusters(page_size=-1), paged=True)), "page_size")


async def test_orders(desk: Desk, golden: Golden) -> None:
    made = {name: await desk.create(cluster_name=name) for name in ("b", "a", "c")}
    down = ListClustersSortBy(field=BY_NAME.field, direction=ListClustersSortByDirection.DESC)
    oldest = ListClustersSortBy(direction=ListClustersSortByDirection.ASC)
    assert ids(await desk.list(sort_by=BY_NAME)) == [made["a"], made["b"], made["c"]]
    assert ids(await desk.list(sort_by=down)) == [made["c"], made["b"], made["a"]]
    assert ids(await desk.list(sort_by=oldest)) == list(made.values())
    token = (await desk.list(sort_by=BY_NAME, page_size=1))["next_page_token"]
    assert ids(await desk.list(sort_by=BY_NAME, page_size=1, page_token=token)) == [made["b"]]
    for other in (None, down, oldest):
        asked = ListClusters(sort_by=other, page_token=token)
        golden(await refused(InvalidParameterValue, desk.service.list(ADMIN, asked, paged=True)), "sort_by")


async def test_filters(desk: Desk) -> None:
    running, pending = await desk.create(), await desk.create()
    await desk.bring_up(running)
    await desk.service.pin(ADMIN, ClusterId(cluster_id=pending))
    for by, expected in (
        (ListClustersFilterBy(cluster_states=[State.RUNNING]), [running]),
        (ListClustersFilterBy(cluster_states=[State.RUNNING, State.PENDING]), [pending, running]),
        (ListClustersFilterBy(cluster_states=[State.ERROR]), []),
        (ListClustersFilterBy(cluster_sources=[ClusterSource.API]), [pending, running]),
        (ListClustersFilterBy(cluster_sources=[ClusterSource.JOB]), []),
        (ListClustersFilterBy(is_pinned=True), [pending]),
        (ListClustersFilterBy(is_pinned=False), [running]),
        (ListClustersFilterBy(policy_id="none"), []),
        (ListClustersFilterBy(policy_id=""), [pending, running]),
    ):
        assert ids(await desk.list(filter_by=by)) == expected


async def test_terminated_clusters_leave_the_list_after_thirty_days_unless_pinned(desk: Desk) -> None:
    name = await desk.create()
    await desk.settle(name, target=Target.TERMINATED, ended=True, terminated_ms=desk.clock.now_ms())
    desk.clock.advance(minutes=29 * 24 * 60)
    assert ids(await desk.list()) == [name]
    desk.clock.advance(minutes=2 * 24 * 60)
    assert ids(await desk.list()) == []
    await desk.service.pin(ADMIN, ClusterId(cluster_id=name))
    assert ids(await desk.list()) == [name]


class Shuffled:
    """A list that somebody pages through while others change it."""

    def __init__(self, store: Store, sort: ClusterSort) -> None:
        self.store, self.sort, self.number = store, sort, 0

    def change(self, tx: Tx, what: str, which: int) -> None:
        names = sorted(row.cluster_id for row in tx.listing.page(ClusterFilter(), sort=ClusterSort()))
        if what == "create" or not names:
            self.number += 1
            spec = msgspec.structs.replace(cluster().spec, cluster_name=f"{which}")
            tx.clusters.insert(cluster(cluster_id=f"new-{self.number}", created_ms=NOW + which, spec=spec))
            return
        found = tx.clusters.get(names[which % len(names)])
        assert found is not None
        if what == "delete":
            tx.clusters.update(msgspec.structs.replace(found, deleted_ms=NOW))
        elif what == "rename":
            spec = msgspec.structs.replace(found.spec, cluster_name=f"{which}")
            tx.clusters.update(msgspec.structs.replace(found, spec=spec))
        else:
            tx.clusters.update(msgspec.structs.replace(found, pinned_ms=NOW))


CHANGES = st.lists(st.tuples(st.sampled_from(["create", "delete", "rename", "pin"]), st.integers(0, 30)), max_size=4)


@given(
    changes=st.lists(CHANGES, max_size=8),
    by=st.sampled_from(ClusterOrder),
    descending=st.booleans(),
    states=st.sampled_from([(), (State.PENDING,), (State.PENDING, State.RUNNING)]),
)
@settings(max_examples=40, deadline=None)
def test_what_stays_is_shown_once_whatever_changes_meanwhile(
    changes: list[list[tuple[str, int]]], by: ClusterOrder, states: tuple[State, ...], *, descending: bool
) -> None:
    with tempfile.TemporaryDirectory() as place:
        store = Store.open(empty_sqlite(Path(place) / "lists.db"))
        sort, which = ClusterSort(by=by, descending=descending), ClusterFilter(states=states)
        shuffled = Shuffled(store, sort)
        for number in range(12):
            store.write_sync(functools.partial(shuffled.change, what="create", which=number * 5 % 7))
        before = {each.cluster_id: each for each in store.read_sync(lambda tx: tx.listing.page(which, sort=sort))}
        stayed = set(before)
        shown: list[str] = []
        after: ClusterPosition | None = None
        meanwhile = iter(changes)
        while page := store.read_sync(functools.partial(_page_of, which, sort, after)):
            shown += [each.cluster_id for each in page]
            after = page[-1]
            for what, number in next(meanwhile, []):
                store.write_sync(functools.partial(shuffled.change, what=what, which=number))
                now = {each.cluster_id: each for each in store.read_sync(lambda tx: tx.listing.page(which, sort=sort))}
                stayed = {name for name in stayed if now.get(name) == before[name]}
        store.close()
    assert stayed <= set(shown)
    assert all(shown.count(name) == 1 for name in stayed)
    if by is ClusterOrder.CREATED:  # which nobody can change
        assert len(shown) == len(set(shown))


def _page_of(which: ClusterFilter, sort: ClusterSort, after: ClusterPosition | None, tx: Tx) -> list[ClusterPosition]:
    return tx.listing.page(which, sort=sort, limit=3, after=after)


def token_of(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


BAD_TOKENS = [
    "nonsense",
    "ä",
    "=",
    token_of([]),
    token_of({}),
    token_of(["CREATED", True, False, ["name", "id"]]),
    token_of(["CREATED", True, False, [2**63, "id"]]),
    token_of(["CREATED", True, False, [1, "i\0d"]]),
    token_of(["NAME", True, False, ["n", "id"]]),
    token_of([True, False, [2**70, 1]]),
    "[" * 5000,
]


@pytest.mark.parametrize("token", BAD_TOKENS)
def test_bad_tokens_are_refused(token: str) -> None:
    with pytest.raises(InvalidParameterValue):
        cluster_cursor(token, ClusterSort())
    with pytest.raises(InvalidParameterValue):
        event_cursor(token, descending=True)


@given(st.text())
def test_any_text_is_a_token_or_is_refused(token: str) -> None:
    try:
        cluster_cursor(token, ClusterSort(by=ClusterOrder.NAME))
        event_cursor(token, descending=True)
    except InvalidParameterValue:
        return
    assert not token


async def test_clusters_for_one_kind_of_work(desk: Desk, golden: Golden) -> None:
    both = await desk.create()
    no_jobs = await desk.create(workload_type=WorkloadType(clients=ClientsTypes(jobs=False, notebooks=True)))
    no_notebooks = await desk.create(workload_type=WorkloadType(clients=ClientsTypes(notebooks=False)))
    assert (await desk.get(no_jobs))["workload_type"] == {"clients": {"jobs": False, "notebooks": True}}
    for paged in (True, False):
        names = {
            client: {each["cluster_id"] for each in (await desk.list(paged=paged, can_use_client=client))["clusters"]}
            for client in ("JOBS", "NOTEBOOKS", "")
        }
        assert names == {
            "JOBS": {both, no_notebooks},
            "NOTEBOOKS": {both, no_jobs},
            "": {both, no_jobs, no_notebooks},
        }
    message = await refused(InvalidParameterValue, desk.list(can_use_client="ANYTHING"))
    golden(message, "can_use_client", "ANYTHING")


@both_databases
def test_libraries_of_the_clusters_that_one_sees(store: Store) -> None:
    """By the query: rows that are hidden are not read."""

    def work(tx: Tx) -> list[list[str]]:
        library = ClusterLibrary(library=Library(pypi=PythonPyPiLibrary(package="six")))
        for at, (name, owner) in enumerate((("own", "anna"), ("shared", "ben"), ("by group", "ben"), ("hidden", "ben"))):
            tx.clusters.insert(cluster(cluster_id=name, creator_user_name=owner, created_ms=at, libraries=(library,)))
        tx.clusters.insert(cluster(cluster_id="without", creator_user_name="anna"))
        for name, holder in (("shared", "7"), ("by group", "g"), ("without", "7"), ("hidden", "8")):
            tx.grants.put(Place(ObjectKind.CLUSTER, name), [Grant(holder, Permission.CAN_ATTACH_TO)])
        tx.grants.put(Place(ObjectKind.INSTANCE_POOL, "hidden"), [Grant("7", Permission.CAN_ATTACH_TO)])
        seen = (EVERYTHING, Visible(owner="anna", holders=frozenset({"7", "g"})), Visible(owner="carl"))
        return [[each.cluster_id for each in tx.clusters.with_libraries(which)] for which in seen]

    found = asyncio.run(store.write(work))
    assert found == [["own", "shared", "by group", "hidden"], ["own", "shared", "by group"], []]
