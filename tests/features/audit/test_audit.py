"""The audit log: what was changed and what was refused is in it, once, and nothing else; no secret is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from databricks.sdk.errors import Unauthenticated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brickyard.api.app import all_operations
from brickyard.api.edge.registry import Auth
from brickyard.domain.audit import AuditEntry, AuditFilter, ListAuditLogs
from brickyard.domain.caller import Caller
from brickyard.domain.errors import (
    ApiError,
    DatabaseAway,
    DatabaseFull,
    InvalidParameterValue,
    InvalidState,
    PermissionDenied,
    RequestLimitExceeded,
)
from brickyard.domain.requests import ClusterId, CreateCluster
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.v1.clusters import CreateV1Cluster, RestartV1Cluster, StartV1Cluster, StopV1Cluster
from brickyard.features.audit.rules import fields, names
from brickyard.features.audit.service import Audited, AuditLog
from brickyard.reconcile.retention import Retention
from brickyard.store.companion import beside
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from tests.clusters.v1.room import Room
from tests.support import world as shared
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, ASK, USER, Desk
from tests.support.patience import PATIENCE_S, until
from tests.support.server import Server

EVERYTHING = AuditFilter()


class World(shared.World):
    """An audit log over a store, and calls as the edge makes them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.log = AuditLog(
            store=store, clock=self.clock, authorizer=self.authorizer, server="http://here", monotonic=lambda: 1_000.0
        )

    def begin(self, operation: str = "clusters.edit", caller: Caller = USER, request: Any = None) -> Audited:
        return self.log.begin(operation, status=200, address="10.0.0.1", request_id="r", asked=lambda: (caller, request))

    def entries(self) -> list[AuditEntry]:
        return self.store.read_sync(lambda tx: tx.audit.page(EVERYTHING, limit=1_000)).entries


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


async def test_a_change_and_its_entry_are_one_commit(world: World) -> None:
    desk = Desk(world.store)
    audited = world.begin("clusters.create", ADMIN, ASK)
    with beside(audited):
        created = await desk.service.create(ADMIN, ASK)
        found = world.entries()  # before the call is answered
    assert [(each.operation, each.user_name, each.credential_id, each.status) for each in found] == [
        ("clusters.create", ADMIN.user_name, ADMIN.token_id, 200)
    ]
    assert found[0].objects == {"cluster_id": created}
    assert set(found[0].fields) == {"num_workers", "spark_version", "node_type_id", "cluster_name"}
    assert (found[0].address, found[0].server, found[0].request_id) == ("10.0.0.1", "http://here", "r")
    audited.succeeded(None)
    assert len(world.entries()) == 1


async def test_an_entry_that_names_what_was_made_is_written_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both dialects: another write would cost as much as the cluster."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the entry was complete")

    monkeypatch.setattr(AuditLog, "change", never)

    room = Room(world.store)
    ask = CreateV1Cluster(name="abc")
    audited = world.begin("gpu_clusters.create", ADMIN, ask)
    with beside(audited):
        made = await room.v1.create(ADMIN, ask)
    audited.succeeded(made)
    assert world.entries()[0].objects == {"id": made.id, "name": "abc"}


async def test_an_entry_about_a_cluster_that_the_answer_shows_is_written_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the entry was complete")

    monkeypatch.setattr(AuditLog, "change", never)

    room = Room(world.store)
    made = await room.v1.create(ADMIN, CreateV1Cluster(name="abc", auto_start=False))
    steps: tuple[tuple[str, Any, Callable[[Any, Any], Awaitable[Any]]], ...] = (
        ("start", StartV1Cluster(cluster_id=made.id), room.v1.start),
        ("restart", RestartV1Cluster(cluster_id=made.id), room.v1.restart),
        ("stop", StopV1Cluster(cluster_id=made.id), room.v1.stop),
    )
    for verb, ask, call in steps:
        if verb == "restart":
            await room.up(made.id)
        audited = world.begin(f"gpu_clusters.{verb}", ADMIN, ask)
        with beside(audited):
            answer = await call(ADMIN, ask)
        audited.succeeded(answer)
        entry = next(each for each in world.entries() if each.operation == f"gpu_clusters.{verb}")
        assert entry.objects == {"cluster_id": made.id}


async def test_a_change_that_is_rolled_back_leaves_none_and_the_refusal_is_written_once(world: World) -> None:
    desk = Desk(world.store)
    audited = world.begin("clusters.restart", USER, ClusterId(cluster_id="no-such"))
    with beside(audited), pytest.raises(Exception) as refused:
        await desk.service.delete(USER, ClusterId(cluster_id="no-such"))
    assert world.entries() == []
    audited.failed(refused.value)  # type: ignore[arg-type] # an ApiError
    await world.log.close()
    assert [(each.status, each.objects) for each in world.entries()] == [
        (refused.value.http_status, {"cluster_id": "no-such"})  # type: ignore[attr-defined] # likewise
    ]


async def test_of_several_commits_the_first_that_succeeds_has_the_entry(world: World) -> None:
    def fails(tx: Tx) -> None:
        tx.set_meta("a", "1")
        raise InvalidState("no")

    audited = world.begin()
    with beside(audited):
        with pytest.raises(InvalidState):
            await world.store.write(fails)
        await world.store.write(lambda tx: tx.set_meta("b", "2"))
        assert len(world.entries()) == 1
        await world.store.write(lambda tx: tx.set_meta("c", "3"))
    audited.succeeded(None)
    assert len(world.entries()) == 1
    assert world.store.read_sync(lambda tx: tx.get_meta("a")) is None


async def test_what_fails_after_its_commit_is_marked(world: World) -> None:
    audited = world.begin()
    with beside(audited):
        await world.store.write(lambda tx: tx.set_meta("b", "2"))
    refused = InvalidState("no")
    assert audited.failed(refused) is refused
    await world.log.close()
    assert [(each.status, each.error_code) for each in world.entries()] == [(400, "INVALID_STATE")]


@both_databases
@pytest.mark.parametrize("trouble", [DatabaseAway("gone"), DatabaseFull("full"), RequestLimitExceeded("overloaded")])
async def test_after_its_commit_no_call_is_told_to_try_again(world: World, trouble: ApiError) -> None:
    audited = world.begin()
    with beside(audited):
        await world.store.write(lambda tx: tx.set_meta("b", "2"))
    answer = audited.failed(trouble)
    assert (answer.http_status, answer.error_code) == (500, "UNKNOWN")
    await world.log.close()
    assert [(each.status, each.error_code) for each in world.entries()] == [(500, "UNKNOWN")]
    assert world.begin().failed(trouble) is trouble, "before it, it is"


async def test_before_an_effect_elsewhere_the_entry_is_there_once(world: World) -> None:
    audited = world.begin("dbfs.mkdirs")
    with beside(audited):
        for _ in range(2):
            await world.store.before_effect()
            assert [each.operation for each in world.entries()] == ["dbfs.mkdirs"]
    audited.succeeded(None)
    await world.log.close()
    assert len(world.entries()) == 1


async def test_a_call_that_did_nothing_has_an_entry_too(world: World) -> None:
    audited = world.begin("dbfs.mkdirs")
    with beside(audited):
        await world.store.read(lambda tx: tx.get_meta("a"))
    audited.succeeded(None)
    await world.log.close()
    assert [each.operation for each in world.entries()] == ["dbfs.mkdirs"]


def test_what_is_written_afterwards_is_tried_until_the_database_is_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brickyard.features.audit.service.AGAIN_S", 0.01)
    left = [3]
    write = world.store.write

    async def failing(work: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise DatabaseAway("gone")
        return await write(work, **options)

    monkeypatch.setattr(world.store, "write", failing)

    async def work() -> None:
        world.begin().failed(PermissionDenied("no"))
        async with asyncio.timeout(PATIENCE_S):
            while not world.entries():
                await asyncio.sleep(0.01)
        left[0] = 1_000_000
        world.begin().failed(PermissionDenied("no"))
        async with asyncio.timeout(PATIENCE_S):
            await world.log.close()
        assert len(world.entries()) == 1, "a stop does not wait for a database that is away"

    asyncio.run(work())


async def test_what_a_call_leaves_running_adds_nothing(world: World) -> None:
    audited = world.begin("dbfs.mkdirs")
    go = asyncio.Event()

    async def later() -> None:
        await go.wait()
        await world.store.write(lambda tx: tx.set_meta("later", "1"))

    with beside(audited):
        left = asyncio.create_task(later())
        await world.store.write(lambda tx: tx.set_meta("loops", "1"), background=True)
    audited.succeeded(None)
    go.set()
    await left
    await world.log.close()
    assert len(world.entries()) == 1


async def test_a_unit_that_runs_again_has_one_entry(world: World) -> None:
    """Two writers on one row: PostgreSQL repeats one of them."""

    await world.store.write(lambda tx: tx.set_meta("n", "0"))

    def add(tx: Tx) -> None:
        tx.lock("n")
        tx.set_meta("n", str(int(tx.get_meta("n") or 0) + 1))

    async def one() -> None:
        audited = world.begin()
        with beside(audited):
            await world.store.write(add)
        audited.succeeded(None)

    await asyncio.gather(*(one() for _ in range(20)))
    assert world.store.read_sync(lambda tx: tx.get_meta("n")) == "20"
    assert len(world.entries()) == 20


async def test_refusals_are_bounded(world: World) -> None:
    for _ in range(300):
        world.begin().failed(PermissionDenied("no"))
    for _ in range(1_000):
        world.log.failed_login("10.0.0.1")
    await world.log.close()
    found = world.entries()
    assert sum(each.user_name == USER.user_name for each in found) == 100
    assert sum(each.operation == "login" for each in found) == 500


@both_databases
async def test_pages_follow_one_another_whatever_the_filter(world: World) -> None:
    def fill(tx: Tx) -> None:
        for number in range(2_500):
            tx.audit.insert(
                AuditEntry(
                    time=number // 3,
                    user_name=f"user-{number % 2}",
                    operation="rare" if number % 1_000 == 7 else "common",
                    objects={"cluster_id": f"c-{number % 5}"},
                    status=200,
                )
            )

    await world.store.write(fill)
    for request, wanted in (
        (ListAuditLogs(), 2_500),
        (ListAuditLogs(user_name="user-1"), 1_250),
        (ListAuditLogs(user_name="user-1", operation="rare"), 3),
        (ListAuditLogs(object_id="c-2", user_name="user-0", operation="common"), 250),
        (ListAuditLogs(start_time=10, end_time=19), 30),
        (ListAuditLogs(operation="never"), 0),
    ):
        seen, token, pages = [], "", 0
        while True:
            page = await world.log.list(ADMIN, msgspec.structs.replace(request, page_size=200, page_token=token))
            seen.extend(page.entries)
            pages += 1
            if not (token := page.next_page_token):
                break
        assert len(seen) == wanted
        assert [each.id for each in seen] == sorted({each.id for each in seen}, reverse=True)
        assert pages < 15
        lines = b"".join([piece async for piece in await world.log.export(ADMIN, request)]).splitlines()
        assert [json.loads(line).get("id") for line in lines] == [each.id for each in seen]


async def test_only_administrators_read_it(world: World) -> None:
    for ask in (world.log.list, world.log.export):
        with pytest.raises(PermissionDenied):
            await ask(USER, ListAuditLogs())
    for wrong in (ListAuditLogs(page_size=1_001), ListAuditLogs(page_token="%%"), ListAuditLogs(page_token="W10")):
        with pytest.raises(InvalidParameterValue):
            await world.log.list(ADMIN, wrong)


async def test_old_entries_go(world: World, tmp_path: Path) -> None:
    for time in (1_000, 2_000, 3_000):
        await world.store.write(lambda tx, time=time: tx.audit.insert(AuditEntry(time=time, operation="a", status=200)))  # type: ignore[misc] # bound now
    world.clock.advance(ms=3_500 - world.clock.now_ms())
    retention = Retention(store=world.store, clock=world.clock, storage=None, audit_kept_ms=1_500)  # type: ignore[arg-type] # unused
    assert await retention.trim_audit() == 1
    assert [each.time for each in world.entries()] == [3_000, 2_000]


# -- over HTTP ---------------------------------------------------------------------------------------------------------


def entries_of(server: Server, **which: str) -> list[AuditEntry]:
    answer: Any = server.client().api_client.do("GET", "/api/2.0/audit-logs", query=which)
    return [msgspec.convert(each, AuditEntry) for each in answer.get("entries", [])]


def test_the_api_of_every_kind_of_call(server: Server) -> None:
    w = server.client()
    w.dbfs.mkdirs("/some/where")
    policy = w.cluster_policies.create(name="audited", definition="{}")
    w.cluster_policies.delete(policy.policy_id or "")
    w.tokens.delete(w.tokens.create(comment="a comment").token_info.token_id)  # type: ignore[union-attr,arg-type] # there is one
    found = entries_of(server)
    made = [each.operation for each in reversed(found)]
    assert made == ["dbfs.mkdirs", "policies.create", "policies.delete", "tokens.create", "tokens.delete"]
    assert found[-1].objects == {"path": "/some/where"}
    assert {each.address for each in found} == {"127.0.0.1"}
    assert {each.server for each in found} == {server.url}
    assert len({each.request_id for each in found}) == len(found)
    assert [each.operation for each in entries_of(server, operation="policies.delete", object_id=policy.policy_id or "")] == [
        "policies.delete"
    ]
    exported: Any = w.api_client.do("GET", "/api/2.0/audit-logs/export", raw=True)
    assert len(exported["contents"].read().splitlines()) == len(found)


def test_who_and_what_was_made_is_named(server: Server) -> None:
    w = server.client()
    user = w.users.create(user_name="ann@example.com", display_name="Ann")
    group = w.groups.create(display_name="makers")
    principal = w.service_principals.create(display_name="robot")
    token = w.tokens.create(comment="a comment").token_info
    assert token is not None
    wanted = {
        "users.create": {"id": user.id, "user_name": "ann@example.com"},
        "groups.create": {"id": group.id, "group_name": "makers"},
        "service_principals.create": {"id": principal.id, "application_id": principal.application_id},
        "tokens.create": {"token_id": token.token_id},
    }
    until(lambda: {each: entries_of(server, operation=each)[0].objects for each in wanted} == wanted)


def test_a_refused_login_is_in_it(server: Server) -> None:
    with pytest.raises(Unauthenticated):
        server.client("dapi-wrong-and-secret").clusters.list_zones()
    until(lambda: len(entries_of(server, operation="login")) == 1)
    (found,) = entries_of(server, operation="login")
    assert (found.status, found.address, found.user_name) == (401, "127.0.0.1", "")
    assert "wrong-and-secret" not in msgspec.json.encode(found).decode()


# -- secrets -----------------------------------------------------------------------------------------------------------

SECRET = "s3cr3t-value-"


def filled(kind: Any, numbers: Iterator[int]) -> Any:
    """A value of the type, with a secret wherever there is room for one."""
    return _filled(msgspec.inspect.type_info(kind), numbers)


def _filled(info: Any, numbers: Iterator[int], within: tuple[type, ...] = ()) -> Any:
    match type(info).__name__:
        case "UnionType":
            one = next(each for each in info.types if type(each).__name__ != "NoneType")
            nested = getattr(one, "cls", None) in within  # a task within a task has no third one
            found = None if nested else _filled(one, numbers, within)
        case "StructType":
            within = (*within, info.cls)
            found = info.cls(**{field.name: _filled(field.type, numbers, within) for field in info.fields})
        case "DictType":
            found = {f"{SECRET}{next(numbers)}": _filled(info.value_type, numbers, within)}
        case "ListType" | "VarTupleType":
            found = [_filled(info.item_type, numbers, within)]
        case "StrType":
            found = f"{SECRET}{next(numbers)}"
        case "EnumType":
            found = next(iter(info.cls))
        case name:
            found = {"IntType": 5, "BoolType": True, "FloatType": 2.5}.get(name)
    return found


NAMING = {
    "cluster_id", "context_id", "command_id", "instance_pool_id", "run_id", "policy_id", "script_id", "token_id", "instance_id",
    "path", "source_path", "destination_path", "file_path", "directory_path", "handle", "id", "object_type", "object_id", "scope",
    "key", "principal", "user_name", "name", "application_id", "client_id",
    "group_name", "parent_name", "full_name", "catalog_name", "schema_name", "budget_id",
}  # fmt: skip
CHANGING = sorted(
    (operation for operation in all_operations() if operation.changes and operation.auth is Auth.USER), key=lambda each: each.name
)


@pytest.mark.parametrize("operation", CHANGING, ids=lambda operation: operation.name)
def test_no_value_of_a_request_or_an_answer_is_in_an_entry(operation: Any) -> None:
    """Except of fields that name an object: everything else may hold a secret."""
    numbers = iter(range(10_000))
    for kind in (operation.request, operation.response):
        if kind is None:
            continue
        struct = filled(kind, numbers)
        text = msgspec.json.encode([list(names(struct).items()), fields(struct)]).decode()
        for name in NAMING & {field.name for field in msgspec.structs.fields(kind)}:
            text = text.replace(str(getattr(struct, name)), "")
        if (token := getattr(struct, "token_info", None)) is not None:
            text = text.replace(token.token_id, "")
        assert SECRET not in text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conf=st.dictionaries(st.text(max_size=20), st.text(max_size=20)), name=st.text(max_size=400))
def test_no_text_breaks_out_of_its_line(conf: dict[str, str], name: str) -> None:
    request = CreateCluster(cluster_name=name, spark_conf=conf, policy_id=name)
    assert "".join([*names(request).values(), *fields(request)]).isprintable()


def test_fields_are_named_with_their_parts() -> None:
    request = CreateCluster(cluster_name="a", spark_conf={"k": "v"}, clone_from=None)
    assert set(fields(request)) == {"cluster_name", "spark_conf"}
    assert fields(ClusterSpec()) == []
