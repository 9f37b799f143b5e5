"""Lists of clusters: filters, orders, pages in both directions."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Target
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.queries import ClusterOrder, ClusterSort
from brickyard.domain.requests import ClusterId, ListClusters, ListClustersFilterBy, ListClustersSortBy
from brickyard.domain.spec import ClientsTypes, WorkloadType
from brickyard.domain.states import ClusterSource, ListClustersSortByDirection, ListClustersSortByField, State
from brickyard.services.pagetokens import cluster_cursor, event_cursor
from brickyard.store.store import Store
from tests.services.desk import ADMIN, Desk, play, refused

BY_NAME = ListClustersSortBy(field=ListClustersSortByField.CLUSTER_NAME)


def ids(page: dict[str, object]) -> list[str]:
    clusters = page["clusters"]
    assert isinstance(clusters, list)
    return [item["cluster_id"] for item in clusters]


def test_pages_forth_and_back(store: Store) -> None:
    async def scenario(desk: Desk) -> None:
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

    play(store, scenario)


def test_clusters_that_come_and_go_shift_no_page(store: Store) -> None:
    async def scenario(desk: Desk) -> None:
        names = [await desk.create() for _ in range(6)][::-1]
        page = await desk.list(page_size=2)
        await desk.create()
        await desk.service.permanent_delete(ADMIN, ClusterId(cluster_id=names[1]))
        await desk.service.permanent_delete(ADMIN, ClusterId(cluster_id=names[2]))
        assert ids(await desk.list(page_size=2, page_token=page["next_page_token"])) == names[3:5]

    play(store, scenario)


def test_sizes_of_pages(store: Store) -> None:
    async def scenario(desk: Desk) -> None:
        for _ in range(21):
            await desk.create()
        assert len(ids(await desk.list())) == 20
        assert len(ids(await desk.list(page_size=0))) == 20
        assert len(ids(await desk.list(page_size=10_000))) == 21
        assert "page_size is -1" in await refused(
            InvalidParameterValue, desk.service.list(ADMIN, ListClusters(page_size=-1), paged=True)
        )

    play(store, scenario)


def test_orders(store: Store) -> None:
    async def scenario(desk: Desk) -> None:
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
            assert "another sort_by" in await refused(InvalidParameterValue, desk.service.list(ADMIN, asked, paged=True))

    play(store, scenario)


def test_filters(store: Store) -> None:
    async def scenario(desk: Desk) -> None:
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

    play(store, scenario)


def test_terminated_clusters_leave_the_list_after_thirty_days_unless_pinned(store: Store) -> None:
    async def scenario(desk: Desk) -> None:
        name = await desk.create()
        await desk.settle(name, target=Target.TERMINATED, ended=True, terminated_ms=desk.clock.now_ms())
        desk.clock.advance(minutes=29 * 24 * 60)
        assert ids(await desk.list()) == [name]
        desk.clock.advance(minutes=2 * 24 * 60)
        assert ids(await desk.list()) == []
        await desk.service.pin(ADMIN, ClusterId(cluster_id=name))
        assert ids(await desk.list()) == [name]

    play(store, scenario)


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


def test_clusters_for_one_kind_of_work(store: Store) -> None:
    async def scenario(desk: Desk) -> None:
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
        assert message == "can_use_client is 'ANYTHING'; it must be JOBS or NOTEBOOKS."

    play(store, scenario)
