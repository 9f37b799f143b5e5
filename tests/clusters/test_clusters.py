"""The life of clusters, on both databases."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from brickyard.clusters import commands
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.cluster import Target
from brickyard.domain.errors import Aborted, InvalidParameterValue, InvalidState, PermissionDenied
from brickyard.domain.events import EventType
from brickyard.domain.requests import (
    ChangeClusterOwner,
    CloneCluster,
    ClusterId,
    EditCluster,
    GetEvents,
    ListClustersFilterBy,
    ResizeCluster,
    RestartCluster,
    StartCluster,
    UpdateCluster,
)
from brickyard.domain.spec import ClusterSpec, DataSecurityMode, Kind
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, RUNTIME, USER, Desk, refused
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.people import enter


async def test_a_created_cluster_is_pending_at_once(desk: Desk) -> None:
    name = await desk.create(custom_tags={"Creator": "me", "Team": "a"})
    view = await desk.get(name)
    assert view["state"] == "PENDING"
    assert view["state_message"]
    assert view["default_tags"]["ClusterId"] == name
    assert view["custom_tags"] == {"x_Creator": "me", "Team": "a"}
    assert view["spec"]["num_workers"] == 2
    assert view["driver_node_type_id"] == "small"
    assert view["cluster_source"] == "API"
    assert "driver" not in view
    assert desk.woken == [name]
    assert (await desk.list())["clusters"][0].get("spec") is None


@both_databases
async def test_a_stopping_server_ends_all_clusters_in_short_commits(
    desk: Desk, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "ENDED_TOGETHER", 2)

    names = [await desk.create() for _ in range(5)]
    commits: list[int] = []
    store.on_commit(lambda changed: commits.append(len(changed.clusters)))
    await desk.service.end_all("it was told to", limit_s=PATIENCE_S)
    assert [count for count in commits if count] == [2, 2, 1]
    for name in names:
        assert (await desk.get(name))["state"] == "TERMINATING"
    await desk.service.end_all("it was told to", limit_s=PATIENCE_S)
    assert len(commits) == 3


async def test_no_read_after_a_call_shows_the_state_before_it(desk: Desk, golden: Golden) -> None:
    name = await desk.create()
    await desk.bring_up(name)
    assert (await desk.get(name))["state"] == "RUNNING"
    assert len((await desk.get(name))["executors"]) == 2
    await desk.service.resize(ADMIN, ResizeCluster(cluster_id=name, num_workers=3))
    assert (await desk.get(name))["state"] == "RESIZING"
    assert (await desk.get(name))["num_workers"] == 3
    await desk.settle(name, sized=True)
    await desk.service.restart(ADMIN, RestartCluster(cluster_id=name))
    assert (await desk.get(name))["state"] == "RESTARTING"
    await desk.service.delete(ADMIN, ClusterId(cluster_id=name))
    view = await desk.get(name)
    assert (view["state"], view["termination_reason"]["code"]) == ("TERMINATING", "USER_REQUEST")
    golden(view["state_message"], "example.com")
    await desk.settle(name, ended=True, terminated_ms=desk.clock.now_ms())
    assert (await desk.get(name))["state"] == "TERMINATED"
    await desk.service.start(ADMIN, StartCluster(cluster_id=name))
    view = await desk.get(name)
    assert view["state"] == "PENDING"
    assert "termination_reason" not in view


async def test_calls_in_the_wrong_state(desk: Desk, golden: Golden) -> None:
    name = await desk.create()
    service = desk.service
    edit = EditCluster(cluster_id=name, spark_version=RUNTIME.key, node_type_id="small", num_workers=1)
    text = await refused(InvalidState, service.start(ADMIN, StartCluster(cluster_id=name)))
    golden(text, name, "Pending")
    assert await refused(InvalidState, service.restart(ADMIN, RestartCluster(cluster_id=name))) == text
    assert await refused(InvalidState, service.resize(ADMIN, ResizeCluster(cluster_id=name, num_workers=1))) == text
    assert await refused(InvalidState, service.edit(ADMIN, edit)) == text
    owner = ChangeClusterOwner(cluster_id=name, owner_username="x")
    assert await refused(InvalidState, service.change_owner(ADMIN, owner)) == text
    await desk.bring_up(name)
    golden(await refused(InvalidState, service.start(ADMIN, StartCluster(cluster_id=name))), name, "Running")


async def test_unknown_clusters(desk: Desk, golden: Golden) -> None:
    for call in (
        desk.service.get(ADMIN, "none"),
        desk.service.delete(ADMIN, ClusterId(cluster_id="none")),
        desk.service.events(ADMIN, GetEvents(cluster_id="none")),
        desk.service.permanent_delete(ADMIN, ClusterId(cluster_id="none")),
    ):
        golden(await refused(InvalidParameterValue, call))


async def test_edit_restarts_a_running_cluster_and_leaves_a_terminated_one(desk: Desk) -> None:
    name = await desk.create()
    await desk.bring_up(name)
    edit = EditCluster(cluster_id=name, spark_version=RUNTIME.key, node_type_id="small", num_workers=1, cluster_name="new")
    await desk.service.edit(ADMIN, edit)
    view = await desk.get(name)
    assert (view["state"], view["cluster_name"], view["num_workers"]) == ("RESTARTING", "new", 1)
    await desk.settle(name, target=Target.TERMINATED, ended=True, restarting=False)
    before = await desk.row(name)
    await desk.service.edit(ADMIN, msgspec.structs.replace(edit, num_workers=4))
    after = await desk.row(name)
    assert (after.incarnation, after.num_workers) == (before.incarnation, 4)
    assert (await desk.get(name))["state"] == "TERMINATED"


@both_databases
async def test_a_name_a_tag_and_the_idle_time_change_while_the_cluster_runs(desk: Desk) -> None:
    name = await desk.create(custom_tags={"team": "a"}, autotermination_minutes=30)
    await desk.bring_up(name)
    before = await desk.row(name)
    desk.woken.clear()
    spec = msgspec.convert((await desk.get(name))["spec"], ClusterSpec)
    changed = {"cluster_name": "renamed", "custom_tags": {"team": "b"}, "autotermination_minutes": 45}
    edit = EditCluster(cluster_id=name, expected_spec=spec, **(msgspec.structs.asdict(spec) | changed))
    verdict = await desk.service.validate_edit(ADMIN, edit)
    assert (verdict.valid, verdict.restart_fields) == (True, [])
    await desk.service.edit(ADMIN, edit)
    view, after = await desk.get(name), await desk.row(name)
    assert (view["state"], after.incarnation, after.secret) == ("RUNNING", before.incarnation, before.secret)
    assert {field: view[field] for field in changed} == changed
    assert view["default_tags"]["ClusterName"] == "renamed"
    assert [each["cluster_name"] for each in (await desk.list())["clusters"]] == ["renamed"], "in the list's index as well"
    assert desk.woken == [name], "the loop reads the idle time and the tags of the charges"
    told = await desk.service.events(ADMIN, GetEvents(cluster_id=name))
    assert [each.type for each in told.events or ()][:1] == [EventType.EDITED]
    update = UpdateCluster(cluster_id=name, update_mask="cluster_name", cluster=ClusterSpec(cluster_name="again"))
    await desk.service.update(ADMIN, update)
    assert (await desk.get(name))["cluster_name"] == "again"
    assert (await desk.row(name)).incarnation == before.incarnation


@both_databases
async def test_validate_only_names_the_fields_for_which_an_edit_restarts(desk: Desk) -> None:
    name = await desk.create()
    spec = msgspec.convert((await desk.get(name))["spec"], ClusterSpec)
    changed = {"cluster_name": "renamed", "spark_conf": {"a.b": "1"}, "num_workers": 3}
    edit = EditCluster(cluster_id=name, **(msgspec.structs.asdict(spec) | changed))
    await desk.bring_up(name)
    assert (await desk.service.validate_edit(ADMIN, edit)).restart_fields == ["num_workers", "spark_conf"]
    assert (await desk.get(name))["state"] == "RUNNING"
    await desk.settle(name, target=Target.TERMINATED, ended=True)
    assert (await desk.service.validate_edit(ADMIN, edit)).restart_fields == []


async def test_an_edit_can_say_what_it_builds_on(desk: Desk, golden: Golden) -> None:
    """Two people who edit one cluster: the second one is told, and nothing of the first is lost."""

    name = await desk.create(spark_conf={"a.b": "1"}, autotermination_minutes=30)
    await desk.settle(name, target=Target.TERMINATED, ended=True)
    begun = msgspec.convert((await desk.get(name))["spec"], ClusterSpec)

    def edit(num_workers: int) -> EditCluster:
        spec = msgspec.structs.asdict(begun) | {"num_workers": num_workers}
        return EditCluster(cluster_id=name, expected_spec=begun, **spec)

    await desk.service.edit(ADMIN, edit(5))
    with golden.refused(Aborted):
        await desk.service.edit(ADMIN, edit(7))
    assert (await desk.get(name))["num_workers"] == 5
    now = msgspec.convert((await desk.get(name))["spec"], ClusterSpec)
    await desk.service.edit(ADMIN, msgspec.structs.replace(edit(7), expected_spec=now))
    assert (await desk.get(name))["num_workers"] == 7


async def test_an_edit_that_says_what_holds_is_told_of_as_well(desk: Desk) -> None:
    name = await desk.create()
    await desk.settle(name, target=Target.TERMINATED, ended=True)
    edit = EditCluster(cluster_id=name, cluster_name="c", spark_version=RUNTIME.key, node_type_id="small", num_workers=2)
    before = await desk.row(name)
    await desk.service.edit(ADMIN, edit)
    assert await desk.row(name) == before
    told = await desk.service.events(ADMIN, GetEvents(cluster_id=name))
    assert [event.type for event in told.events or ()] == [EventType.EDITED, EventType.CREATING]


async def test_update_changes_what_the_mask_names(desk: Desk) -> None:
    name = await desk.create(spark_conf={"spark.a": "1"})
    await desk.bring_up(name)
    before = await desk.row(name)
    same = UpdateCluster(cluster_id=name, update_mask="num_workers", cluster=ClusterSpec(num_workers=2))
    await desk.service.update(ADMIN, same)
    assert (await desk.row(name)).incarnation == before.incarnation
    cleared = UpdateCluster(cluster_id=name, update_mask="spark_conf", cluster=ClusterSpec())
    await desk.service.update(ADMIN, cleared)
    view = await desk.get(name)
    assert view["state"] == "RESTARTING"
    assert view["spark_conf"] == {}


async def test_one_cluster_for_one_idempotency_token(desk: Desk) -> None:
    names = await asyncio.gather(*(desk.create(idempotency_token="once") for _ in range(8)))
    assert len(set(names)) == 1
    await desk.service.delete(ADMIN, ClusterId(cluster_id=names[0]))
    assert await desk.create(idempotency_token="once") != names[0]
    await refused(InvalidParameterValue, desk.create(idempotency_token="x" * 65))


async def test_pins(desk: Desk, golden: Golden) -> None:
    name = await desk.create()
    await refused(PermissionDenied, desk.service.pin(USER, ClusterId(cluster_id=name)))
    await desk.service.pin(ADMIN, ClusterId(cluster_id=name))
    await desk.service.pin(ADMIN, ClusterId(cluster_id=name))
    golden(await refused(InvalidParameterValue, desk.service.permanent_delete(ADMIN, ClusterId(cluster_id=name))))
    pinned = await desk.list(filter_by=ListClustersFilterBy(is_pinned=True))
    assert [item["cluster_id"] for item in pinned["clusters"]] == [name]
    await desk.service.unpin(ADMIN, ClusterId(cluster_id=name))
    assert not (await desk.list(filter_by=ListClustersFilterBy(is_pinned=True)))["clusters"]
    await desk.service.permanent_delete(ADMIN, ClusterId(cluster_id=name))
    await refused(InvalidParameterValue, desk.service.get(ADMIN, name))
    assert not (await desk.list())["clusters"]


async def test_the_101st_pin_is_refused(desk: Desk) -> None:
    names = [await desk.create() for _ in range(101)]
    for name in names[:100]:
        await desk.service.pin(ADMIN, ClusterId(cluster_id=name))
    await refused(InvalidParameterValue, desk.service.pin(ADMIN, ClusterId(cluster_id=names[100])))


async def test_change_owner(desk: Desk) -> None:
    name = await desk.create()
    await desk.settle(name, target=Target.TERMINATED, ended=True)
    ask = ChangeClusterOwner(cluster_id=name, owner_username="user@example.com")
    await refused(InvalidParameterValue, desk.service.change_owner(ADMIN, ask))
    await desk.store.write(lambda tx: enter(tx, USER))
    await desk.service.change_owner(ADMIN, ask)
    assert (await desk.get(name))["creator_user_name"] == "user@example.com"


async def test_update_needs_a_settled_cluster_even_when_it_changes_nothing(desk: Desk, golden: Golden) -> None:
    name = await desk.create()
    same = UpdateCluster(cluster_id=name, update_mask="num_workers", cluster=ClusterSpec(num_workers=2))
    golden(await refused(InvalidState, desk.service.update(ADMIN, same)), name, "Pending")
    unknown = UpdateCluster(cluster_id=name, update_mask="nonsense", cluster=ClusterSpec())
    golden(await refused(InvalidParameterValue, desk.service.update(ADMIN, unknown)))


async def test_an_update_that_only_says_what_holds_restarts_nothing(desk: Desk) -> None:
    name = await desk.create()
    await desk.bring_up(name)
    before = await desk.row(name)
    said = UpdateCluster(cluster_id=name, update_mask="autotermination_minutes", cluster=ClusterSpec(autotermination_minutes=120))
    await desk.service.update(ADMIN, said)
    after = await desk.row(name)
    assert (after.incarnation, after.spec) == (before.incarnation, before.spec)
    assert (await desk.get(name))["spec"]["autotermination_minutes"] == 120


async def test_a_single_users_cluster_stays_that_users(desk: Desk, golden: Golden) -> None:
    message = await refused(
        InvalidParameterValue, desk.create(data_security_mode=DataSecurityMode.SINGLE_USER, single_user_name="stranger")
    )
    golden(message, "single_user_name")
    name = await desk.create(data_security_mode=DataSecurityMode.SINGLE_USER)
    await desk.settle(name, target=Target.TERMINATED, ended=True)
    renamed = UpdateCluster(cluster_id=name, update_mask="cluster_name", cluster=ClusterSpec(cluster_name="new"))
    place = Place(ObjectKind.CLUSTER, name)
    await desk.store.write(lambda tx: tx.grants.put(place, [Grant(USER.user_id, Permission.CAN_MANAGE)]))
    await desk.service.update(USER, renamed)
    view = await desk.get(name)
    assert (view["cluster_name"], view["single_user_name"]) == ("new", ADMIN.user_name)


async def test_single_nodes_are_not_resized(desk: Desk, golden: Golden) -> None:
    name = await desk.create(kind=Kind.CLASSIC_PREVIEW, is_single_node=True, num_workers=None)
    await desk.bring_up(name)
    await desk.service.resize(ADMIN, ResizeCluster(cluster_id=name, num_workers=0))
    assert (await desk.get(name))["state"] == "RUNNING"
    more = desk.service.resize(ADMIN, ResizeCluster(cluster_id=name, num_workers=1))
    golden(await refused(InvalidParameterValue, more))


async def test_clones_need_a_source(desk: Desk, golden: Golden) -> None:
    source = await desk.create()
    assert await desk.create(clone_from=CloneCluster(source_cluster_id=source)) != source
    lost = desk.create(clone_from=CloneCluster(source_cluster_id="none"))
    golden(await refused(InvalidParameterValue, lost))


async def test_a_new_start_has_new_secrets_and_a_clean_slate(desk: Desk) -> None:
    name = await desk.create()
    await desk.bring_up(name)
    await desk.settle(name, grow_failures=3, grow_after_ms=9, worker_failures=2)
    before = await desk.row(name)
    desk.clock.advance(ms=10)
    await desk.service.restart(ADMIN, RestartCluster(cluster_id=name))
    after = await desk.row(name)
    assert after.incarnation == before.incarnation + 1
    assert not {after.secret, after.connect_token} & {before.secret, before.connect_token}
    assert (after.grow_failures, after.grow_after_ms, after.worker_failures, after.ready_workers) == (0, 0, 0, 0)
    assert (after.launch_started_ms, after.start_ms) == (desk.clock.now_ms(), before.start_ms)
    assert await desk.store.read(lambda tx: tx.clusters.due(desk.clock.now_ms(), 10)) == [name]


async def test_commands_of_one_transaction_hold_as_a_whole(desk: Desk) -> None:
    name = await desk.create()
    await desk.settle(name, target=Target.TERMINATED, ended=True)
    edit = EditCluster(cluster_id=name, spark_version=RUNTIME.key, node_type_id="small", num_workers=5)
    start = StartCluster(cluster_id=name)
    commands = desk.service.commands

    def configure_and_start(tx: Tx) -> None:
        commands.edit(tx, ADMIN, edit)
        commands.start(tx, ADMIN, start)

    await desk.store.write(configure_and_start)
    view = await desk.get(name)
    assert (view["state"], view["num_workers"]) == ("PENDING", 5)
    before, told = await desk.row(name), await desk.service.events(ADMIN, GetEvents(cluster_id=name))
    assert [event.type for event in told.events or ()][:2] == [EventType.STARTING, EventType.EDITED]

    # The second start is refused: what was configured before it, in the same transaction, is not kept either.
    def pin_and_start(tx: Tx) -> None:
        commands.pin(tx, ADMIN, ClusterId(cluster_id=name))
        commands.start(tx, ADMIN, start)

    await refused(InvalidState, desk.store.write(pin_and_start))
    assert await desk.row(name) == before
    assert (await desk.service.events(ADMIN, GetEvents(cluster_id=name))).events == told.events
