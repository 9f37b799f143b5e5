"""The Spark Connect gateway before a driver that is a fake."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.clusters.attach import connectclients
from brickyard.clusters.attach.connectclients import Session
from brickyard.domain.audit import CONNECT_BEGUN, CONNECT_ENDED
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Cluster, Target
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.nodeops import AgentRefused, AgentUnreachable
from brickyard.domain.spec import ClientsTypes, DataSecurityMode, WorkloadType
from brickyard.domain.warehouses import Warehouse
from brickyard.gateway import connect
from brickyard.gateway.connect import MAX_MESSAGE
from brickyard.gateway.endpoints import FRESH_S, OPEN_S, Endpoints
from brickyard.gateway.errors import GatewayError
from brickyard.gateway.requests import interruption, sender
from brickyard.nodes.ways import short
from brickyard.plan.attach import Client
from brickyard.testing.builders import cluster, up
from tests.gateway.driver import BLOCK, SERVICE, FakeDriver
from tests.gateway.world import CLUSTER_ID, as_metadata, call, credentials, method, world
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S

RUNNING = up(cluster())
STOPPED = cluster(target=Target.TERMINATED, ended=True, state_message="Inactive for 120 minutes")
NO_NOTEBOOKS = up(
    cluster(),
    spec=msgspec.structs.replace(RUNNING.spec, workload_type=WorkloadType(clients=ClientsTypes(notebooks=False))),
)
APART = up(cluster(), spec=msgspec.structs.replace(RUNNING.spec, data_security_mode=DataSecurityMode.USER_ISOLATION))
WAREHOUSE = up(cluster(creator_user_name="me@example.com"), warehouse=Warehouse(cluster_size="2X-Small"))
THEIRS = up(cluster(), spec=msgspec.structs.replace(RUNNING.spec, single_user_name="other@example.com"))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def refusal(work: Awaitable[Any]) -> tuple[str, str]:
    """The status and the message that a call ends with."""
    try:
        await work
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details() or ""
    raise AssertionError("the call went through")


async def test_a_call_reaches_a_cluster_with_a_network_of_its_own(tmp_path: Path) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        ways = tmp_path / ("long" * 40) / "ways" / "198.18.0.1"  # longer than the name of a socket may be
        ways.mkdir(parents=True)
        w.agent.way, port, w.agent.port = str(ways / "7077"), w.driver.port, 1
        server = await asyncio.start_unix_server(lambda r, to: lead(r, to, port), short(w.agent.way))
        try:
            await w.set(RUNNING)
            token = await w.token("me@example.com")
            assert await call(channel, "Config", b"hello", **credentials(token)) == b"hello"
            large = b"\xff" * (8 << 20)  # no fields
            assert await call(channel, "Config", large, **credentials(token)) == large
        finally:
            server.close()


async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Pass bytes on to that port, both ways."""
    theirs, ours = await asyncio.open_connection("127.0.0.1", port)

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
        target.close()

    await asyncio.gather(carry(reader, ours), carry(theirs, writer), return_exceptions=True)


async def test_a_call_reaches_the_cluster_under_the_clusters_own_token(tmp_path: Path) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        token = await w.token("me@example.com")
        assert await call(channel, "Config", b"hello", **credentials(token), x_mine="kept") == b"hello"
        called, metadata = w.driver.seen[0]
        assert called == SERVICE + "Config"
        assert metadata["authorization"] == "Bearer c"
        assert metadata["x-mine"] == "kept"
        assert "x-databricks-cluster-id" not in metadata
        assert token not in str(metadata)


def field(number: int, value: bytes) -> bytes:
    """A field of a protobuf message: those that are shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


async def test_whose_session_it_is_is_remembered(tmp_path: Path) -> None:
    named = field(1, b"s1") + field(2, field(1, b"root") + field(2, b"Root"))

    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        me, you = await w.token("me@example.com"), await w.token("you@example.com")
        found = w.attach.connect_clients.find
        await call(channel, "Config", named + field(4, b"notebook"), **credentials(me))
        assert found(Session(CLUSTER_ID, "root", "s1")) == ("me@example.com", "notebook")
        await call(channel, "Config", named + field(3, b"get") + field(4, b"script"), **credentials(you))
        assert found(Session(CLUSTER_ID, "root", "s1")) == ("you@example.com", "script")
        await call(channel, "Config", named, **credentials(me))
        assert found(Session(CLUSTER_ID, "root", "s1")) == ("me@example.com", "script"), "the program is not always named"


async def test_the_audit_log_has_each_session_once_from_its_begin_to_its_end(tmp_path: Path) -> None:
    named = field(1, b"s1") + field(2, field(1, b"root"))

    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        me, you = await w.token("me@example.com"), await w.token("you@example.com")
        for method in ("Config", "Config", "ReleaseSession", "ReleaseSession"):
            await call(channel, method, named, **credentials(me))
        await call(channel, "Config", field(1, b"s2") + field(2, field(1, b"root")), **credentials(you))
        session = {"cluster_id": CLUSTER_ID, "session_id": "s1"}
        assert w.noted == [
            (CONNECT_BEGUN, "me@example.com", session),
            (CONNECT_ENDED, "me@example.com", session),
            (CONNECT_BEGUN, "you@example.com", session | {"session_id": "s2"}),
        ]


async def test_where_users_are_kept_apart_a_session_is_its_users_whatever_the_client_says(tmp_path: Path) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(APART)
        for user in ("me@example.com", "j\u00f6 doe"):
            request = field(1, b"s1") + field(2, field(1, b"root")) + field(4, b"notebook")
            await call(channel, "Config", request, **credentials(await w.token(user)))
            known_to_spark = w.driver.seen[-1][1]["x-brickyard-user"]  # UserGuard.java makes it the session's user
            assert w.attach.connect_clients.find(Session(CLUSTER_ID, known_to_spark, "s1")) == (user, "notebook")
        assert w.attach.connect_clients.find(Session(CLUSTER_ID, "root", "s1")) is None


def test_the_program_is_at_another_place_in_another_request() -> None:
    request = field(1, b"s1") + field(3, b"three") + field(4, b"four")
    assert [sender(SERVICE + name, request) for name in ("AnalyzePlan", "ExecutePlan", "Interrupt")] == [
        ("s1", "", "three"),
        ("s1", "", "four"),
        None,
    ]


def test_the_sender_is_the_one_whom_the_driver_finds() -> None:
    """Else a session could be hidden from whoever ends the sessions of a user."""
    user, other = field(2, field(1, b"me")), field(2, field(1, b"other"))
    group = b"\x9b\x06" + field(1, b"s0") + field(2, field(1, b"hidden")) + b"\x9c\x06"  # number 99
    wide = b"\x8a\x80\x80\x80\xf0\x01" + b"\x02s1"  # the tag of field 1 with bits that Java drops
    for request in (
        field(1, b"s0") + field(4, b"x") + other + user + field(1, b"s1"),
        field(1, b"s1") + user + field(2, b""),
        group + field(1, b"s1") + user,
        field(1, b"s1") + user + group,
        field(1, b"s0") + user + wide,
    ):
        found = sender(SERVICE + "Config", request)
        assert found is not None
        assert found[:2] == ("s1", "me"), request
        assert interruption(SERVICE + "ExecutePlan", request) == field(1, b"s1") + user + b"\x20\x01", request


async def test_a_drivers_agent_is_told_of_each_session_before_it_is_used(tmp_path: Path, golden: Golden) -> None:
    """Once, and again when somebody may have lost access, as the agent then forgets sessions."""

    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        metadata = credentials(await w.token("me@example.com"))
        w.agent.told.clear()
        session = field(1, b"s1") + field(2, field(1, b"root"))
        for _ in range(2):
            assert await call(channel, "Config", session, **metadata) == session
        assert w.agent.told == [("me@example.com", "root", "s1")]
        await w.token("another@example.com")  # a change of identities
        await call(channel, "Config", session, **metadata)
        assert w.agent.told == [("me@example.com", "root", "s1")] * 2
        w.agent.deaf = AgentUnreachable("silent", sent=False)
        before = len(w.driver.seen)
        for name in ("Config", "ExecutePlan"):
            found = await refusal(call(channel, name, field(1, b"s2"), **metadata))
            assert found[0] == "UNAVAILABLE", found
        assert len(w.driver.seen) == before, "it did not pass"
        w.agent.deaf = AgentRefused("NOT_FOUND", "an agent of an earlier version")
        assert await call(channel, "Config", field(1, b"s2"), **metadata)
        found = await refusal(call(channel, "Config", field(1, b"s3") + b"\x12\xcb\x01\x0a\xc8\x01" + b"r" * 200, **metadata))
        assert found[0] == "INVALID_ARGUMENT"
        golden(found[1], "user_id")


@given(st.binary(max_size=80) | st.binary(max_size=40).map(lambda body: b"\x0a\x02s1" + body))
def test_any_bytes_name_somebody_or_nobody(request: bytes) -> None:
    found = sender(SERVICE + "Config", request)
    assert found is None or found.session_id


def test_sessions_that_are_silent_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectclients, "KEPT", 2)
    clients, me = connectclients.ConnectClients(), connectclients.ConnectClient("me", "x")
    first, second, third = (Session("c", "root", name) for name in ("1", "2", "3"))
    for session in (first, second, first, third):
        clients.saw(session, me)
    assert [clients.find(session) for session in (first, second, third)] == [me, None, me]


@pytest.mark.parametrize(
    ("state", "sent", "status", "says"),
    [
        (RUNNING, {"x_databricks_cluster_id": CLUSTER_ID}, "UNAUTHENTICATED", "token=TOKEN"),
        (RUNNING, credentials("dapi0"), "UNAUTHENTICATED", "Invalid access token"),
        (RUNNING, {"authorization": "Bearer {token}"}, "INVALID_ARGUMENT", "x-databricks-cluster-id=CLUSTER-ID"),
        (RUNNING, credentials("{token}", "0101-000000-unknown0"), "NOT_FOUND", "does not exist"),
        (STOPPED, credentials("{token}"), "FAILED_PRECONDITION", "Terminated (Inactive for 120 minutes). Start it"),
        (cluster(), credentials("{token}"), "UNAVAILABLE", "Pending"),
        (THEIRS, credentials("{token}"), "PERMISSION_DENIED", "the single user of this cluster is 'other@example.com'"),
        (NO_NOTEBOOKS, credentials("{token}"), "PERMISSION_DENIED", "its workload_type.clients.notebooks is false"),
        (WAREHOUSE, credentials("{token}"), "PERMISSION_DENIED", "is a SQL warehouse, which only runs SQL statements"),
        (msgspec.structs.replace(RUNNING, deleted_ms=1), credentials("{token}"), "NOT_FOUND", "does not exist"),
    ],
)
async def test_whoever_may_not_enter_is_told_why(
    tmp_path: Path, state: Cluster, sent: dict[str, str], status: str, says: str
) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(state)
        token = await w.token("me@example.com")
        given = {key: value.format(token=token) for key, value in sent.items()}
        code, message = await refusal(call(channel, "Config", **given))
        assert (code, says in message) == (status, True), message
        assert w.driver.seen == []
        assert w.agent.asked == 0


@pytest.mark.parametrize(
    ("refused", "status", "says"),
    [
        (AgentRefused("INVALID", "no Spark Connect server: it is a Maven artifact"), "FAILED_PRECONDITION", "Maven"),
        (AgentRefused("DEAD", "the driver is not ready"), "UNAVAILABLE", "not ready"),
        (AgentUnreachable("cannot connect", sent=False), "UNAVAILABLE", "cannot connect"),
    ],
)
async def test_a_driver_that_has_no_connect_says_so(
    tmp_path: Path, refused: AgentRefused | AgentUnreachable, status: str, says: str
) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        w.agent.refusal = refused
        given = credentials(await w.token("me@example.com"))
        code, message = await refusal(call(channel, "Config", **given))
        assert (code, says in message) == (status, True), message
        w.agent.refusal = None
        assert await call(channel, "Config", **given) == b"hello", "a refusal is not remembered"


async def test_sparks_own_errors_come_through_whole(tmp_path: Path) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        given = credentials(await w.token("me@example.com"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(channel, "AnalyzePlan", **given)
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        assert caught.value.details() == "[TABLE_NOT_FOUND]"
        assert dict(caught.value.trailing_metadata() or ())["grpc-status-details-bin"] == b"\x01\x02"
        assert (await refusal(call(channel, "Tomorrow", **given)))[0] == "UNIMPLEMENTED"


async def test_streams_go_both_ways(tmp_path: Path) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        token = await w.token("me@example.com")
        metadata = as_metadata(token)
        got = [block async for block in method(channel.unary_stream, "ExecutePlan")(b"40", metadata=metadata)]
        assert (len(got), set(got)) == (40, {BLOCK})
        upload: Any = method(channel.stream_unary, "AddArtifacts")((BLOCK for _ in range(40)), metadata=metadata)
        assert await upload == b"%d" % (40 << 20)
        large = b"\xff" * (MAX_MESSAGE - 1)  # no fields
        assert await call(channel, "Config", large, **credentials(token)) == large


async def test_a_client_that_never_reads_costs_a_window_and_delays_nobody(tmp_path: Path) -> None:
    async with world(tmp_path) as w, w.channel() as lazy, w.channel() as busy:
        await w.set(RUNNING)
        token = await w.token("me@example.com")
        metadata = as_metadata(token)
        stalled: Any = method(lazy.unary_stream, "ExecutePlan")(b"2000", metadata=metadata)
        await until(lambda: w.driver.sent > 0)
        before = -1
        while before != w.driver.sent:  # until the driver can give away no more
            before = w.driver.sent
            await asyncio.sleep(0.3)
        assert w.driver.sent < 32, "what is on its way is bounded"
        # Another client of the same driver, over the same connection to it, is not held up.
        got = [block async for block in method(busy.unary_stream, "ExecutePlan")(b"64", metadata=metadata)]
        assert len(got) == 64
        stalled.cancel()
        await w.driver.cancelled.wait()


async def test_a_user_cannot_take_every_call_for_himself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CALLS", connect.CALLS._replace(share=2, admin_share=2))

    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        mine, theirs = await w.token("me@example.com"), await w.token("you@example.com")
        streams = [method(channel.unary_stream, "ExecutePlan")(b"2000", metadata=as_metadata(mine)) for _ in range(2)]
        for stream in streams:
            await stream.read()
        assert (await refusal(call(channel, "Config", **credentials(mine))))[0] == "RESOURCE_EXHAUSTED"
        assert await call(channel, "Config", **credentials(theirs)) == b"hello"
        streams[0].cancel()
        await w.driver.cancelled.wait()
        assert await call(channel, "Config", **credentials(mine)) == b"hello"


async def test_a_client_that_vanishes_ends_its_calls(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.set(RUNNING)
        metadata = as_metadata(await w.token("me@example.com"))
        channel = w.channel()
        stream: Any = method(channel.unary_stream, "ExecutePlan")(b"2000", metadata=metadata)
        await stream.read()
        await channel.close()
        await w.driver.cancelled.wait()


async def test_a_cluster_that_starts_is_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path, patience_s=PATIENCE_S) as w, w.channel() as channel:
        await w.set(cluster())
        calling = asyncio.create_task(call(channel, "Config", **credentials(await w.token("me@example.com"))))
        await asyncio.sleep(0.1)
        assert not calling.done()
        await w.set(RUNNING)
        assert await calling == b"hello"
        assert w.started == []


async def test_a_stopped_cluster_is_started_once_where_the_settings_say_so(tmp_path: Path) -> None:
    async with world(tmp_path, may_start=True, patience_s=PATIENCE_S) as w, w.channel() as channel:
        await w.set(STOPPED)
        assert await call(channel, "Config", **credentials(await w.token("me@example.com"))) == b"hello"
        assert w.started == [CLUSTER_ID]


async def test_a_driver_that_has_moved_is_found_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        given = credentials(await w.token("me@example.com"))
        await call(channel, "Config", **given)
        await w.driver.stop()
        code, message = await refusal(call(channel, "Config", **given))
        assert (code, CLUSTER_ID in message) == ("UNAVAILABLE", True)
        w.driver = FakeDriver("c")
        await w.driver.start()
        w.agent.port = w.driver.port
        assert await call(channel, "Config", **given) == b"hello"


async def test_a_stranger_on_a_drivers_port_gets_no_answer_to_pass_on(tmp_path: Path) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        w.driver.token = "another cluster's"
        given = credentials(await w.token("me@example.com"))
        code, message = await refusal(call(channel, "Config", **given))
        assert (code, "has changed" in message) == ("UNAVAILABLE", True)


async def test_the_driver_hears_that_it_is_used_but_not_with_every_call(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.set(RUNNING)
        now = 0.0
        endpoints = Endpoints(attach=w.attach, patience_s=0, may_start=False, monotonic=lambda: now)
        me = Caller(user_name="me@example.com", user_id="1", is_admin=False, token_id="t")
        for _ in range(50):
            await endpoints.find(me, CLUSTER_ID, client=Client.NOTEBOOKS)
        assert w.agent.asked == 1
        now = FRESH_S + 1
        await endpoints.find(me, CLUSTER_ID, client=Client.NOTEBOOKS)
        assert w.agent.asked == 1
        now += OPEN_S
        await endpoints.find(me, CLUSTER_ID, client=Client.NOTEBOOKS)  # in the background
        await until(lambda: w.agent.asked == 2)


async def test_a_permission_that_was_taken_away_ends_within_seconds(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.set(RUNNING)
        now = 0.0
        endpoints = Endpoints(attach=w.attach, patience_s=0, may_start=False, monotonic=lambda: now)
        me = Caller(user_name="me@example.com", user_id="1", is_admin=False, token_id="t")
        await endpoints.find(me, CLUSTER_ID, client=Client.NOTEBOOKS)
        await w.set(THEIRS)
        now = FRESH_S + 0.1
        with pytest.raises(Exception, match="single user"):
            await endpoints.find(me, CLUSTER_ID, client=Client.NOTEBOOKS)


async def test_a_call_in_progress_ends_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CHECK_S", 0.05)

    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        tokens = [await w.token("me@example.com") for _ in range(2)]
        streams: list[Any] = [
            method(channel.unary_stream, "ExecutePlan")(b"2000", metadata=as_metadata(token)) for token in tokens
        ]
        for stream in streams:
            await stream.read()
        caller = await w.tokens.authenticate(tokens[0])
        assert caller is not None
        await w.tokens.delete(caller, caller.token_id)
        assert (await refusal(_drain(streams[0])))[0] == "UNAUTHENTICATED"
        assert await streams[1].read() is not grpc.aio.EOF, "the other token's goes on"
        streams[1].cancel()


async def test_what_a_call_runs_is_interrupted_when_it_may_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would run on for minutes. Operations of other users, and those whose client leaves, are left alone."""
    monkeypatch.setattr(connect, "CHECK_S", 0.05)

    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        mine, yours = await w.token("me@example.com"), await w.token("you@example.com")
        whose = field(1, b"s1") + field(2, field(1, b"me"))
        reattach = method(channel.unary_stream, "ReattachExecute")
        cut: Any = reattach(whose + field(3, b"op-1"), metadata=as_metadata(mine))
        other: Any = reattach(field(1, b"s2") + field(3, b"op-2"), metadata=as_metadata(yours))
        left: Any = reattach(whose + field(3, b"op-3"), metadata=as_metadata(mine))
        for stream in (cut, other, left):
            await stream.read()
        left.cancel()
        await w.driver.cancelled.wait()
        caller = await w.tokens.authenticate(mine)
        assert caller is not None
        await w.tokens.delete(caller, caller.token_id)
        assert (await refusal(_drain(cut)))[0] == "UNAUTHENTICATED"
        assert w.driver.interrupts == [whose + b"\x20\x03" + field(6, b"op-1")]
        assert await other.read() is not grpc.aio.EOF
        other.cancel()


def test_how_an_operation_is_interrupted() -> None:
    whose = field(1, b"s1") + field(2, field(1, b"me"))
    operation = b"\x32\xc8\x01" + b"o" * 200  # field 6, with a length that takes two bytes
    named = whose + field(3, b"a plan") + operation
    assert interruption(SERVICE + "ExecutePlan", named) == whose + b"\x20\x03" + operation
    assert interruption(SERVICE + "ExecutePlan", whose + b"\x32\xc0\xbb\x78" + b"o" * 1_973_696) is None, "no id is so long"
    assert interruption(SERVICE + "ExecutePlan", whose + field(3, b"a plan")) == whose + b"\x20\x01", "all of the session"
    assert interruption(SERVICE + "ReattachExecute", whose + field(3, b"op")) == whose + b"\x20\x03" + field(6, b"op")
    assert interruption(SERVICE + "ReattachExecute", field(3, b"op")) is None
    assert interruption(SERVICE + "Config", whose) is None


@pytest.mark.parametrize(
    "request_", [b"x\x01" * 10_001, b"\x12\xa2\x9c\x01" + b"x\x01" * 10_001], ids=["itself", "its user's context"]
)
def test_a_request_of_very_many_fields_is_refused(request_: bytes) -> None:
    """Each takes some microseconds: 128 MiB of them would stop the server for minutes."""
    for read in (sender, interruption):
        with pytest.raises(InvalidParameterValue):
            read(SERVICE + "ExecutePlan", request_)


async def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        async with world(tmp_path) as w:
            again = type(w.gateway)(authenticator=w.authenticator, attach=w.attach)
            for port in (taken.getsockname()[1], w.gateway.port):
                with pytest.raises(GatewayError, match="--connect-port"):
                    await again.start("127.0.0.1", port)


async def test_the_gateway_stops_while_calls_run(tmp_path: Path) -> None:
    async with world(tmp_path) as w, w.channel() as channel:
        await w.set(RUNNING)
        metadata = as_metadata(await w.token("me@example.com"))
        stream: Any = method(channel.unary_stream, "ExecutePlan")(b"2000", metadata=metadata)
        await stream.read()
        await w.gateway.stop()
        assert (await refusal(_drain(stream)))[0] in ("UNAVAILABLE", "CANCELLED")
        await w.driver.cancelled.wait()


async def _drain(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass
