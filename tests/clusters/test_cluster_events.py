"""Events of a cluster: what calls leave behind, and how they are paged."""

from __future__ import annotations

import msgspec

from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.cluster import Target
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.events import ClusterEvent, EventDetailsCause, EventType
from brickyard.domain.requests import ClusterId, EditCluster, GetEvents, ResizeCluster, RestartCluster, StartCluster
from brickyard.domain.states import GetEventsOrder
from brickyard.store.store import Store
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, RUNTIME, USER, Desk, refused
from tests.support.golden import Golden

ALL = [EventType.UNPINNED, EventType.PINNED] * 4 + [EventType.CREATING]


async def busy(desk: Desk) -> str:
    """A cluster with nine events."""
    name = await desk.create()
    for _ in range(4):
        desk.clock.advance(ms=5)
        await desk.service.pin(ADMIN, ClusterId(cluster_id=name))
        desk.clock.advance(ms=5)
        await desk.service.unpin(ADMIN, ClusterId(cluster_id=name))
    return name


async def walk(desk: Desk, request: GetEvents | None, *, keep_tokens: bool = True) -> list[EventType]:
    """Every event, as clients read them: `next_page` is the next request."""
    kinds: list[EventType] = []
    while request is not None:
        if not keep_tokens:
            request = msgspec.structs.replace(request, page_token=None)
        page = await desk.service.events(ADMIN, request)
        assert page.total_count == 9
        kinds += [event.type for event in page.events or []]
        request = page.next_page
    return kinds


async def test_pages_are_whole_requests(desk: Desk) -> None:
    name = await busy(desk)
    for request in (
        GetEvents(cluster_id=name, limit=4),
        GetEvents(cluster_id=name, limit=3),
        GetEvents(cluster_id=name, limit=9),
        GetEvents(cluster_id=name, page_size=2),
        GetEvents(cluster_id=name, page_size=10_000),
        GetEvents(cluster_id=name, page_size=0),
        GetEvents(cluster_id=name),
    ):
        assert await walk(desk, request) == ALL
        ascending = msgspec.structs.replace(request, order=GetEventsOrder.ASC)
        assert await walk(desk, ascending) == ALL[::-1]


async def test_clients_that_know_no_tokens_page_by_offset(desk: Desk) -> None:
    name = await busy(desk)
    assert await walk(desk, GetEvents(cluster_id=name, limit=2), keep_tokens=False) == ALL
    ascending = GetEvents(cluster_id=name, limit=2, order=GetEventsOrder.ASC)
    assert await walk(desk, ascending, keep_tokens=False) == ALL[::-1]


@both_databases
async def test_new_events_shift_no_page(desk: Desk) -> None:
    name = await busy(desk)
    first = await desk.service.events(ADMIN, GetEvents(cluster_id=name, limit=4))
    desk.clock.advance(ms=5)
    await desk.service.pin(ADMIN, ClusterId(cluster_id=name))
    assert first.next_page is not None
    by_token = await desk.service.events(ADMIN, first.next_page)
    by_offset = await desk.service.events(ADMIN, msgspec.structs.replace(first.next_page, page_token=None))
    assert by_token.events == by_offset.events
    assert [event.type for event in by_token.events or []] == ALL[4:8]


@both_databases
async def test_pages_go_back(desk: Desk, golden: Golden) -> None:
    name = await busy(desk)
    first = await desk.service.events(ADMIN, GetEvents(cluster_id=name, page_size=4))
    assert first.prev_page_token is None
    assert first.next_page is not None
    second = await desk.service.events(ADMIN, first.next_page)
    back = GetEvents(cluster_id=name, page_size=4, page_token=second.prev_page_token)
    assert (await desk.service.events(ADMIN, back)).events == first.events
    assert (await desk.service.events(ADMIN, back)).prev_page_token is None
    other = msgspec.structs.replace(back, order=GetEventsOrder.ASC)
    golden(await refused(InvalidParameterValue, desk.service.events(ADMIN, other)))


@both_databases
async def test_filters(desk: Desk) -> None:
    name = await busy(desk)
    made = (await desk.service.events(ADMIN, GetEvents(cluster_id=name, order=GetEventsOrder.ASC))).events or []
    only = await desk.service.events(ADMIN, GetEvents(cluster_id=name, event_types=[EventType.PINNED]))
    assert only.total_count == 4
    since = GetEvents(cluster_id=name, start_time=made[2].timestamp, end_time=made[4].timestamp)
    assert (await desk.service.events(ADMIN, since)).events == made[2:5][::-1]


@both_databases
async def test_nothing_is_beyond_the_last_event(desk: Desk) -> None:
    name = await busy(desk)
    for types in (None, [EventType.PINNED], [EventType.PINNED, EventType.UNPINNED]):
        for offset in (9, 2**63 - 1):
            asked = GetEvents(cluster_id=name, event_types=types, order=GetEventsOrder.ASC, offset=offset)
            page = await desk.service.events(ADMIN, asked)
            assert (page.events, page.next_page) == ([], None)


async def test_bad_requests(desk: Desk) -> None:
    name = await desk.create()
    for request, words in (
        (GetEvents(cluster_id=name, limit=501), "limit is 501"),
        (GetEvents(cluster_id=name, limit=0), "limit is 0"),
        (GetEvents(cluster_id=name, offset=-1), "offset is -1"),
        (GetEvents(cluster_id=name, offset=5), "needs end_time"),
        (GetEvents(cluster_id=name, start_time=5, end_time=4), "start_time 5 is after end_time 4"),
        (GetEvents(cluster_id=name, page_token="x"), "page_token"),
    ):
        assert words in await refused(InvalidParameterValue, desk.service.events(ADMIN, request))


async def test_what_every_call_leaves_behind(desk: Desk, store: Store) -> None:
    name = await desk.create()
    await desk.bring_up(name)
    service = desk.service
    await service.resize(ADMIN, ResizeCluster(cluster_id=name, num_workers=5))
    await desk.settle(name, sized=True)
    granted = [Grant(USER.user_id, Permission.CAN_RESTART)]
    await store.write(lambda tx: tx.grants.put(Place(ObjectKind.CLUSTER, name), granted))
    await service.restart(USER, RestartCluster(cluster_id=name, restart_user="somebody@else"))
    await desk.bring_up(name)
    edit = EditCluster(cluster_id=name, spark_version=RUNTIME.key, node_type_id="small", num_workers=1)
    await service.edit(ADMIN, edit)
    await service.delete(ADMIN, ClusterId(cluster_id=name))
    await service.delete(ADMIN, ClusterId(cluster_id=name))
    await desk.settle(name, target=Target.TERMINATED, ended=True)
    await service.start(ADMIN, StartCluster(cluster_id=name))
    page = await service.events(ADMIN, GetEvents(cluster_id=name, order=GetEventsOrder.ASC))
    made: list[ClusterEvent] = page.events or []
    assert [event.type for event in made] == [
        EventType.CREATING,
        EventType.RESIZING,
        EventType.RESTARTING,
        EventType.EDITED,
        EventType.RESTARTING,
        EventType.TERMINATING,
        EventType.STARTING,
    ]
    creating, resizing, restarting, edited, _, terminating, _ = (event.details for event in made)
    assert creating.cluster_size is not None
    assert creating.cluster_size.num_workers == 2
    assert (resizing.current_num_workers, resizing.target_num_workers) == (2, 5)
    assert (resizing.cause, resizing.user) == (EventDetailsCause.USER_REQUEST, ADMIN.user_name)
    assert restarting.user == USER.user_name
    assert edited.previous_cluster_size is not None
    assert edited.cluster_size is not None
    assert (edited.previous_cluster_size.num_workers, edited.cluster_size.num_workers) == (5, 1)
    assert edited.attributes is not None
    assert edited.attributes.num_workers is None
    assert terminating.reason is not None
    assert terminating.reason.parameters == {"username": ADMIN.user_name}
