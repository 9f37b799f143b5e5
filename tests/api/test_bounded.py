"""What a peer may hold of the server's sockets, and for how long; who may read the measurements."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from brickyard.api.edge import bounded
from brickyard.api.edge.serving import serving
from brickyard.nodes.tokens import InstanceTokens
from tests.support.patience import PATIENCE_S, until
from tests.support.server import TOKEN, WORKSPACE_KEY, Server

AUTHORIZED = f"Authorization: Bearer {TOKEN}\r\n"


SERVER = {"metrics_token": "measure"}


@contextlib.contextmanager
def connection(server: Server, sent: str = "") -> Iterator[socket.socket]:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as opened:
        opened.sendall(sent.encode())
        yield opened


def answer(opened: socket.socket) -> str:
    """Everything until the server closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := opened.recv(65536):
            data += piece
    return data.decode()


@pytest.mark.parametrize("sent", ["", "\r\n", "GET /heal", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_half_sent_requests_are_ended(server: Server, monkeypatch: pytest.MonkeyPatch, sent: str) -> None:
    monkeypatch.setattr(bounded, "HEAD_S", 0.2)
    with connection(server, sent) as opened:
        assert answer(opened).startswith("HTTP/1.1 408 ")


def test_who_takes_nothing_of_an_answer_is_dropped(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def free() -> bool:
        with connection(server, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") as another:
            return answer(another).startswith("HTTP/1.1 200 ")

    monkeypatch.setattr(bounded, "MOST_OF_PEER", 1)
    until(free, "the connections of other tests are gone")
    monkeypatch.setattr(bounded, "WRITE_S", 2.0)
    with connection(server, "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 300):
        until(lambda: not free(), "its connection is there")
        until(free, "its connection is closed")


class SlowPeer:
    """A transport and its loop: `waiting` bytes are not taken yet, and `later` is what is called when the time is over."""

    waiting = 900
    aborted = False

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.aborted = True

    def call_later(self, _seconds: float, callback: Callable[[], None]) -> SlowPeer:
        self.later = [callback]
        return self

    def cancel(self) -> None:
        self.later = []


@pytest.mark.parametrize(("waiting", "dropped"), [([800, 10, 9], False), ([900], True), ([800, 800], True)])
def test_who_takes_an_answer_slowly_is_not(waiting: list[int], dropped: bool) -> None:
    peer, config = SlowPeer(), serving(None)
    config.load()
    protocol = bounded.BoundedHttp(config, ServerState(), {}, peer)  # type: ignore[arg-type] # as much of a loop as is asked for
    protocol.flow = FlowControl(peer)  # type: ignore[arg-type] # likewise
    protocol.transport = peer  # type: ignore[assignment] # likewise
    protocol.pause_writing()
    for size in waiting:
        assert not peer.aborted
        peer.waiting = size
        peer.later[0]()
    assert peer.aborted == dropped
    protocol.resume_writing()
    assert dropped or not peer.later


def test_dripping_headers_does_not_help(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "HEAD_S", 0.3)
    with connection(server, "GET /healthz HTTP/1.1\r\n") as opened:

        def ended() -> bool:
            try:
                opened.sendall(b"a: b\r\n")
            except OSError:
                return True
            return False

        until(ended, "the connection is closed")


@pytest.mark.parametrize(
    "headers",
    [
        f"x: {'y' * 70_000}\r\n\r\n",
        "x: y\r\n" * 20_000 + "\r\n",
        f"x{'z' * 70_000}: y\r\n\r\n",
        f"x: {'y' * 900_000}",
        "x: y\r\n" * 200_000,
    ],
)
def test_headers_are_bounded(server: Server, headers: str) -> None:
    with connection(server) as opened:
        with contextlib.suppress(OSError):
            opened.sendall(f"GET /healthz HTTP/1.1\r\nHost: x\r\n{headers}".encode())
        said = answer(opened)  # it may be lost to a reset where more was being sent; what was sent is not served in any case
        assert said[:12] in ("HTTP/1.1 431", "")


def test_a_large_address_is_bounded(server: Server) -> None:
    with connection(server) as opened:
        with contextlib.suppress(OSError):
            opened.sendall(f"GET /{'a' * 70_000} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert "431" in answer(opened)[:20]


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}",
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        "Content-Length: +2\r\n\r\n{}",
        "Content-Length: -2\r\n\r\n{}",
        "Content-Length: 99999999999999999999999\r\n\r\n{}",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n2;\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
        "X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}",
        "X-A: b\rAuthorization: c\r\nContent-Length: 2\r\n\r\n{}",
        "X-A: b\0\r\nContent-Length: 2\r\n\r\n{}",
        "Host: y\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_a_request_that_others_would_read_otherwise_is_refused_with_all_that_follows(server: Server, headers: str) -> None:
    """A proxy before us that sees another end of it, or another host, would take what follows for somebody else's request."""
    head = f"POST /api/2.0/dbfs/mkdirs HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}"
    second = f"GET /api/2.1/clusters/list HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}\r\n"
    with connection(server, f"{head}{headers}{second}") as opened:
        said = answer(opened)
    assert said.startswith("HTTP/1.1 400 ")
    assert said.count("HTTP/1.1 ") == 1


def test_a_body_that_gets_on_is_never_cut_and_one_that_does_not_is(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "BODY_S", 2.0)
    monkeypatch.setattr(bounded, "BODY_BYTES", 64)
    body = b'{"path": "/slow", "contents": "' + b"aGk=" + b'"' + b" " * 2000 + b"}"
    head = f"POST /api/2.0/dbfs/put HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with connection(server, head) as opened:
        for start in range(0, len(body), 100):
            opened.sendall(body[start : start + 100])
            time.sleep(0.12)  # slower than any wait in all: it is what is tried
        assert answer(opened).startswith("HTTP/1.1 200 ")
    with connection(server, head) as opened:
        opened.sendall(body[:100])
        assert answer(opened) == ""


def test_one_peer_holds_a_bounded_number_of_connections(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MOST_OF_PEER", 5)
    with contextlib.ExitStack() as held:
        for _ in range(12):
            held.enter_context(connection(server))
        with connection(server, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") as opened:
            assert answer(opened).startswith("HTTP/1.1 503 ")

    def served() -> bool:
        with contextlib.suppress(requests.ConnectionError):
            return requests.get(f"{server.url}/healthz", timeout=PATIENCE_S).status_code == 200
        return False

    until(served, "the others are gone")


def test_connections_of_agents_do_not_count(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def poll(token: str) -> str:
        path = "/agent/v1/assignment?instance_id=i-1&have=0&wait=0"
        return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"

    def status(opened: socket.socket) -> str:
        """The status of an answer whose connection stays open."""
        said = opened.recv(1 << 16)
        assert b"connection: close" not in said.lower()
        return said[9:12].decode()

    monkeypatch.setattr(bounded, "MOST_OF_PEER", 5)
    right = InstanceTokens(key=WORKSPACE_KEY).agent_token("i-1")
    with contextlib.ExitStack() as held:
        agents = [held.enter_context(connection(server)) for _ in range(4)]
        for _ in range(4):
            for opened in agents:
                opened.sendall(poll(right).encode())
            assert {status(opened) for opened in agents} == {"200"}
            agents = [held.enter_context(connection(server)) for _ in range(4)]
        for opened in agents:  # these keep what they hold
            opened.sendall(poll("wrong").encode())
        assert {status(opened) for opened in agents} == {"401"}
        held.enter_context(connection(server))
        with connection(server, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") as opened:
            assert answer(opened).startswith("HTTP/1.1 503 ")


def test_connections_are_kept_between_requests(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "HEAD_S", 1.0)
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with connection(server) as opened:
        for _ in range(2):
            opened.sendall(request)
            said = b""
            while not said.endswith(b"}"):
                said += opened.recv(1000)
            assert said.startswith(b"HTTP/1.1 200 ")
            time.sleep(1.2)  # longer than headers may take: nothing is being sent


def get(server: Server, path: str, *headers: tuple[str, str]) -> tuple[int, str]:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    with connection(server, f"GET {path} HTTP/1.1\r\nHost: here:80\r\nConnection: close\r\n{lines}\r\n") as opened:
        said = answer(opened)
    return int(said[9:12]), said.partition("\r\n\r\n")[2]


def test_two_authorization_headers_are_refused(server: Server) -> None:
    right, wrong = ("Authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer dapi1")
    assert get(server, "/api/2.1/clusters/list", right)[0] == 200
    for pair in ((right, wrong), (wrong, right), (right, right)):
        for path in ("/api/2.1/clusters/list", "/spark-ui/1/", "/metrics"):
            status, body = get(server, path, *pair)
            assert (status, "Authorization" in body) == (400, True)


def test_measurements_may_ask_for_a_token(server: Server) -> None:
    assert get(server, "/metrics")[0] == 401
    assert get(server, "/metrics", ("Authorization", f"Bearer {TOKEN}"))[0] == 401
    status, body = get(server, "/metrics", ("Authorization", "Bearer measure"))
    assert status == 200
    assert "brickyard_clusters" in body


def test_discovery_names_what_there_is(server: Server) -> None:
    found: Any = requests.get(f"{server.url}/.well-known/databricks-config", timeout=PATIENCE_S).json()
    assert found.keys() == {"account_id", "workspace_id", "host_type", "oidc_endpoint"}
    assert len(found["account_id"]) == 36
    config = server.client().config
    assert (config.account_id, config.workspace_id) == (found["account_id"], found["workspace_id"])


UPGRADE = (
    f"GET /spark-ui/x/ HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}Connection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def test_a_websocket_where_there_is_none_is_refused_in_the_dialect_of_its_prefix(server: Server) -> None:
    for path, key in (("/api/2.1/clusters/nothing", "error_code"), ("/api/1.2/nothing", "error"), ("/x", "error_code")):
        with connection(server, UPGRADE.replace("/spark-ui/x/", path)) as opened:
            said = answer(opened)
        assert said.startswith("HTTP/1.1 404 ")
        assert key in json.loads(said.split("\r\n\r\n", 1)[1])
        assert "x-request-id: " in said.lower()


def test_a_websocket_behind_an_unanswered_request_is_refused(server: Server) -> None:
    with connection(server, f"GET /api/2.0/clusters/list HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}\r\n{UPGRADE}") as opened:
        assert "Switching" not in answer(opened)
