"""Port mappings over HTTP: the calls, and what http mappings lead to. Drivers are simulated; their ports are this machine's."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import ClusterAccessControlRequest, ClusterPermissionLevel

from brickyard.api.edge.websockets import MESSAGE_BYTES
from brickyard.clusters.v1 import PortPlanner
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.providers.simulated import Knobs, SimulatedProvider
from tests.clusters.v1.conftest import Api
from tests.clusters.v1.program import Program, raw
from tests.support.browser import Browser
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.server import TOKEN, Server

SENT = {"X-Custom": "1", "Cookie": "brickyard-session=s; port.a=b"}
AUTH = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def cluster_id(api: Api, machines: SimulatedProvider) -> Iterator[str]:
    """A running cluster, whose driver's ports are this machine's."""
    machines.turn(Knobs(own_ports=True))
    yield api.running()
    machines.turn(Knobs())


@pytest.fixture(autouse=True)
def _own_ports(cluster_id: str, machines: SimulatedProvider) -> None:
    del cluster_id
    machines.turn(Knobs(own_ports=True))


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with Program().running() as running:
        yield running


@pytest.fixture(scope="module")
def url(api: Api, cluster_id: str, program: Program) -> str:
    """The address of the program's mapping."""
    made = api.data("POST", f"/{cluster_id}/proxy/ports", {"internal_port": program.port})
    assert made["status"] == "active"
    return str(made["url"]).rstrip("/")


def ask(url: str, method: str = "GET", **more: Any) -> requests.Response:
    headers = {**AUTH, **more.pop("headers", {})}
    return requests.request(method, url, headers=headers, allow_redirects=False, timeout=PATIENCE_S, **more)


# -- the calls -------------------------------------------------------------------------------------------------------


def test_mappings_are_made_shown_changed_and_removed(api: Api) -> None:
    cluster = api.stopped(port_mappings=[{"internal_port": 8888, "description": "lab"}])
    (made,) = api.data("GET", f"/{cluster}")["port_mappings"]
    assert made["id"].startswith("port_")
    assert (made["internal_port"], made["protocol"], made["description"], made["status"]) == (8888, "http", "lab", "inactive")
    assert made["url"] == f"{api.url}/ports/{cluster}/8888/"
    proxy = f"/{cluster}/proxy"
    added = api.data("POST", f"{proxy}/ports", {"internal_port": 6006})
    assert api.data("PUT", f"{proxy}/ports/{added['id']}", {"description": "board"})["description"] == "board"
    shown = api.data("GET", proxy)
    assert shown["proxy_url"] == f"{api.url}/ports/{cluster}/"
    assert [each["internal_port"] for each in shown["port_mappings"]] == [8888, 6006]
    kept = api.data("PUT", proxy, {"port_mappings": [{"internal_port": 6006}, {"internal_port": 7000}]})["port_mappings"]
    assert [(each["internal_port"], each["description"]) for each in kept] == [(6006, "board"), (7000, "")]
    assert kept[0]["id"] == added["id"]
    assert api.data("DELETE", f"{proxy}/ports/{added['id']}") == {"id": added["id"], "deleted": True}
    gone = {"resource": "port", "id": added["id"]}
    assert api.error("DELETE", f"{proxy}/ports/{added['id']}") == (404, "RESOURCE_NOT_FOUND", gone)
    assert api.error("PUT", f"{proxy}/ports/{added['id']}", {"description": "x"}) == (404, "RESOURCE_NOT_FOUND", gone)
    (listed,) = [each for each in api.data("GET", "", search=cluster)["clusters"] if each["id"] == cluster]
    assert [each["internal_port"] for each in listed["port_mappings"]] == [7000]


def test_a_bad_mapping_changes_nothing_and_every_problem_is_listed(api: Api) -> None:
    cluster = api.stopped(port_mappings=[{"internal_port": 9000}])
    wanted = [
        {"internal_port": 80},
        {"internal_port": 9001, "external_port": 5},
        {"internal_port": 9000, "bind_address": "8.8.8.8"},
    ]
    status, code, details = api.error("PUT", f"/{cluster}/proxy", {"port_mappings": wanted})
    assert (status, code) == (422, "SEMANTIC_ERROR")
    named = [each["field"] for each in details["problems"]]
    assert named == ["port_mappings[0].internal_port", "port_mappings[1].external_port", "port_mappings[2].bind_address"]
    assert api.error("POST", f"/{cluster}/proxy/ports", {"internal_port": 9000})[:2] == (422, "SEMANTIC_ERROR")
    assert api.error("POST", f"/{cluster}/proxy/ports", {"internal": 1})[:2] == (400, "VALIDATION_ERROR")
    assert [each["internal_port"] for each in api.data("GET", f"/{cluster}/proxy")["port_mappings"]] == [9000]


def test_a_start_and_a_restart_change_mappings_with_everything_else(api: Api) -> None:
    cluster = api.stopped(port_mappings=[{"internal_port": 9000}, {"internal_port": 9001}])
    bad = {"environment_updates": {"A": "1"}, "port_mapping_updates": [{"internal_port": 9002}, {"internal_port": 1}]}
    status, _, details = api.error("POST", f"/{cluster}/start", bad)
    assert (status, [each["field"] for each in details["problems"]]) == (422, ["port_mapping_updates[1].internal_port"])
    updates = [{"internal_port": 9001, "remove": True}, {"internal_port": 9002}]
    body = {"wait_for_ready": True, "port_mapping_updates": updates}
    started = api.data("POST", f"/{cluster}/start", body)
    assert [(each["internal_port"], each["status"]) for each in started["port_mappings"]] == [(9000, "active"), (9002, "active")]
    again = {"wait_for_ready": True, "port_mapping_updates": [{"internal_port": 9002, "description": "x"}]}
    restarted = api.data("POST", f"/{cluster}/restart", again)
    assert [each["description"] for each in restarted["port_mappings"]] == ["", "x"]
    stopped = api.data("POST", f"/{cluster}/stop", {"wait_for_completion": True})
    assert [each["status"] for each in stopped["port_mappings"]] == ["inactive"] * 2


def test_changing_ports_takes_the_permission_to_manage(api: Api, w: WorkspaceClient, server: Server) -> None:
    cluster = api.running(port_mappings=[{"internal_port": 9000}])
    w.users.create(user_name="attaches@example.com")
    other = _token_of(server, "attaches@example.com")
    reader = Api(server.url, other)
    assert reader.error("GET", f"/{cluster}/proxy")[:2] == (403, "FORBIDDEN")
    level = ClusterPermissionLevel.CAN_RESTART
    w.clusters.update_permissions(
        cluster, access_control_list=[ClusterAccessControlRequest(user_name="attaches@example.com", permission_level=level)]
    )
    assert len(reader.data("GET", f"/{cluster}/proxy")["port_mappings"]) == 1
    assert reader.error("POST", f"/{cluster}/proxy/ports", {"internal_port": 9001})[:2] == (403, "FORBIDDEN")
    assert reader.error("PUT", f"/{cluster}/proxy", {"port_mappings": []})[:2] == (403, "FORBIDDEN")
    body = {"port_mapping_updates": [{"internal_port": 9001}]}
    assert reader.error("POST", f"/{cluster}/restart", body)[:2] == (403, "FORBIDDEN")


def _token_of(server: Server, user: str) -> str:
    """A token of another user."""
    assert server.application is not None
    made = server.application.parts.services.tokens.create(Caller(user_name=user, user_id="1", is_admin=False, token_id=""))
    return asyncio.run(made)[0]


# -- what they lead to -----------------------------------------------------------------------------------------------


def test_requests_reach_the_program_with_everything_it_needs(url: str, program: Program, cluster_id: str) -> None:
    answer = ask(f"{url}/any/where?a=b&c=%2F", "PATCH", data=b"hello", headers=SENT)
    assert answer.status_code == 200
    seen = answer.json()
    assert (seen["path"], seen["method"], seen["body"]) == ("/any/where?a=b&c=%2F", "PATCH", "hello")
    headers = {name.lower(): value for name, value in seen["headers"].items()}
    assert headers["host"] == f"localhost:{program.port}"
    assert headers["x-custom"] == "1"
    assert headers["x-forwarded-prefix"] == f"/ports/{cluster_id}/{program.port}"
    assert (headers["x-forwarded-for"], headers["x-forwarded-proto"]) == ("127.0.0.1", "http")
    assert headers["cookie"] == "a=b", "of cookies, the program gets its own"
    assert "authorization" not in headers, "the caller's token stays here"


def test_what_the_program_answers_stays_within_its_path(url: str) -> None:
    path = url.split("/", 3)[3]
    assert ask(f"{url}/away").headers["location"] == f"/{path}/steal?x=1"
    assert ask(f"{url}/deeper").headers["location"] == f"/{path}/page?a=b"
    walls = ask(f"{url}/walls").headers
    assert "sandbox" in walls["content-security-policy"]
    assert "allow-same-origin" not in walls["content-security-policy"]
    assert walls["access-control-allow-origin"] == "*"
    assert walls["etag"] == '"1"'
    names = {name.lower() for name in walls}
    assert not names & {"clear-site-data", "strict-transport-security", "service-worker-allowed", "www-authenticate"}
    assert not names & {"x-accel-redirect", "access-control-allow-credentials"}


def test_nobody_gets_there_without_the_permission(url: str, server: Server, cluster_id: str, w: WorkspaceClient) -> None:
    assert requests.get(url + "/", timeout=PATIENCE_S).status_code == 401
    w.users.create(user_name="stranger@example.com")
    stranger = {"Authorization": f"Bearer {_token_of(server, 'stranger@example.com')}"}
    assert requests.get(url + "/", headers=stranger, timeout=PATIENCE_S).status_code == 403
    assert ask(f"{server.url}/ports/{cluster_id}/9999/").status_code == 404, "a port without a mapping"
    assert ask(f"{url}/a/../b").status_code in (200, 404)
    raw_path = requests.Request("GET", url + "/x/%2e%2e/y", headers=AUTH).prepare()
    raw_path.url = url + "/x/%2e%2e/y"
    assert requests.Session().send(raw_path, timeout=PATIENCE_S).status_code == 404


def test_a_browser_gets_a_link_that_opens_this_mapping_alone(server: Server, url: str, cluster_id: str, program: Program) -> None:
    browser = Browser(server.url)
    path = url.removeprefix(server.url)
    led = browser.get(path + "/page", Accept="text/html")
    assert led.headers["location"].startswith("/login?next=")
    browser.log_in()
    led = browser.get(path + "/page?x=1", Accept="text/html")
    link = led.headers["location"]
    assert link.startswith(f"{path}/~")
    assert link.endswith("/page?x=1")
    page = browser.get(link, Accept="text/html")
    assert page.status_code == 200
    assert "localStorage" in page.text, "an opaque origin needs the shim"
    assert "Cookie" not in program.seen[-1].headers
    given = link.split("~")[1].split("/")[0]
    assert browser.get(f"/ports/{cluster_id}/1234/~{given}/").status_code == 401
    assert browser.get(f"/spark-ui/{cluster_id}/~{given}/").status_code == 401
    # Its scripts ask from an opaque origin, with a pass and no cookie.
    preflight = requests.options(
        f"{server.url}{path}/~{given}/x",
        headers={"Origin": "null", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-a"},
        timeout=PATIENCE_S,
    )
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, "*")
    theirs = requests.put(
        f"{server.url}{path}/~{given}/x", headers={"Origin": "null", "Authorization": "token abc"}, timeout=PATIENCE_S
    ).json()["headers"]
    assert theirs["Authorization"] == "token abc", "with a pass, the header is the program's own"
    assert theirs["Origin"] == f"http://localhost:{program.port}"


def test_a_program_may_know_its_path(api: Api, cluster_id: str, server: Server) -> None:
    program = Program()
    program.base = f"/ports/{cluster_id}/{program.port}"
    with program.running():
        body = {"internal_port": program.port, "strip_prefix": False}
        made = api.data("POST", f"/{cluster_id}/proxy/ports", body)
        assert ask(made["url"] + "any").json()["path"] == f"{program.base}/any"
        browser = Browser(server.url)
        browser.log_in()
        link = browser.get(program.base + "/page", Accept="text/html").headers["location"]
        prefix = link.removesuffix("/page")
        assert f"<a href='{prefix}/next'>" in browser.get(link, Accept="text/html").text
        assert browser.get(f"{prefix}/deeper").headers["location"] == f"{prefix}/page?a=b"
        api.data("DELETE", f"/{cluster_id}/proxy/ports/{made['id']}")
        assert ask(made["url"] + "any").status_code == 404


def test_uploads_and_downloads_are_streamed_with_flat_memory(url: str, program: Program) -> None:
    size, before = 64 << 20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def pieces() -> Iterator[bytes]:
        for _ in range(size >> 16):
            yield b"z" * (1 << 16)

    program.taken = 0
    assert ask(f"{url}/upload", "POST", data=pieces()).text == str(size)
    with ask(f"{url}/flood", stream=True) as answer:
        assert sum(len(piece) for piece in answer.iter_content(1 << 20)) == size
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 40 << 10, f"{grown} KiB for {size >> 20} MiB"


def test_what_goes_on_ends_when_the_permission_does(url: str, server: Server, cluster_id: str, w: WorkspaceClient) -> None:
    w.users.create(user_name="leaves@example.com")
    token = _token_of(server, "leaves@example.com")
    grant = ClusterAccessControlRequest(user_name="leaves@example.com", permission_level=ClusterPermissionLevel.CAN_ATTACH_TO)
    w.clusters.update_permissions(cluster_id, access_control_list=[grant])
    with requests.get(f"{url}/stream", headers={"Authorization": f"Bearer {token}"}, stream=True, timeout=PATIENCE_S) as answer:
        pieces = answer.iter_content(5)
        assert next(pieces) == b"tick\n"
        w.clusters.set_permissions(cluster_id, access_control_list=[])
        with pytest.raises(requests.exceptions.RequestException):
            for _ in pieces:
                pass


def test_websockets_work_and_end_with_the_mapping(api: Api, cluster_id: str, server: Server) -> None:
    async def talk(program: Program, port_id: str) -> None:
        at = f"{server.url}/ports/{cluster_id}/{program.port}/ws"
        async with aiohttp.ClientSession(headers=AUTH) as http:
            async with http.ws_connect(at, protocols=("kernel",), max_msg_size=0) as opened:
                assert opened.protocol == "kernel"
                await opened.send_str("hello")
                assert await opened.receive_str() == "hello"
                await opened.send_str("huge")
                assert (await opened.receive(PATIENCE_S)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
            async with http.ws_connect(at) as opened:
                await asyncio.to_thread(api.data, "DELETE", f"/{cluster_id}/proxy/ports/{port_id}")
                message = await opened.receive(PATIENCE_S)
                assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1008)

    with Program().running() as program:
        made = api.data("POST", f"/{cluster_id}/proxy/ports", {"internal_port": program.port})
        asyncio.run(talk(program, made["id"]))
        until(lambda: program.sockets == 0)
    assert MESSAGE_BYTES < 64 << 20


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def _endless_headers(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(ANSWER)
    while True:
        connection.sendall(b"X-More: 1\r\n" * 1000)


def _endless_line(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(ANSWER + b"X-Long: ")
    while True:
        connection.sendall(b"z" * 65_536)


def _no_http(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    connection.recv(4096)


def _injected(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /a\rSet-Cookie: brickyard-session=stolen\r\nContent-Length: 0\r\n\r\n")


def _cookies(connection: socket.socket) -> None:
    connection.recv(4096)
    lines = b"".join(b"Set-Cookie: c%d=1; Domain=example.com; Path=/\r\n" % number for number in range(60))
    mine = b"Set-Cookie: brickyard-session=stolen; Path=/; Max-Age=5\r\n"
    connection.sendall(ANSWER + mine + lines + b"Content-Length: 1\r\n\r\nx")


def _gone(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(ANSWER + b"Content-Length: 100\r\n\r\nfirst")


@contextlib.contextmanager
def _mapped(api: Api, cluster_id: str, answer: Any) -> Iterator[str]:
    with raw(answer) as port:
        made = api.data("POST", f"/{cluster_id}/proxy/ports", {"internal_port": port})
        yield str(made["url"])
        api.data("DELETE", f"/{cluster_id}/proxy/ports/{made['id']}")


@pytest.mark.parametrize("answer", [_endless_headers, _endless_line, _no_http, _injected])
def test_an_answer_that_is_no_http_is_an_error(api: Api, cluster_id: str, answer: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with _mapped(api, cluster_id, answer) as url:
        got = ask(url)
        assert (got.status_code, got.json()["error_code"]) == (503, "TEMPORARILY_UNAVAILABLE"), got.headers
        assert "set-cookie" not in got.headers
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10


def test_an_answer_that_breaks_off_does_not_look_complete(api: Api, cluster_id: str) -> None:
    with _mapped(api, cluster_id, _gone) as url, pytest.raises(requests.exceptions.RequestException):
        ask(url).content  # noqa: B018 - reads it


def test_cookies_stay_within_the_path(api: Api, cluster_id: str) -> None:
    with _mapped(api, cluster_id, _cookies) as url:
        got = ask(url)
        path = "/" + url.rstrip("/").split("/", 3)[3]
        kept: list[Any] = list(got.cookies)
        assert 1 < len(kept) <= 20
        assert all(each.name.startswith("port.") and each.path.startswith(path) for each in kept)
        assert not any(each.domain == "example.com" for each in kept)


def test_a_port_that_nothing_listens_on_says_so(api: Api, cluster_id: str) -> None:
    port = free_port()
    made = api.data("POST", f"/{cluster_id}/proxy/ports", {"internal_port": port})
    got = ask(made["url"])
    assert got.status_code == 503
    assert f"port {port}" in got.json()["message"]
    api.data("DELETE", f"/{cluster_id}/proxy/ports/{made['id']}")


def test_a_stopped_cluster_says_so(api: Api, golden: Golden) -> None:
    cluster = api.stopped(port_mappings=[{"internal_port": 9000}])
    got = ask(f"{api.url}/ports/{cluster}/9000/")
    golden(got.json()["message"])


def test_no_mapping_leads_to_spark(api: Api, w: WorkspaceClient) -> None:
    """Not even one that was made before Spark took the port: who may use a mapping need not be allowed to use Spark."""
    cluster = api.stopped(port_mappings=[{"internal_port": 7077}])  # where simulated masters say that they listen
    w.clusters.start(cluster).result()
    got = ask(f"{api.url}/ports/{cluster}/7077/")
    assert (got.status_code, got.json()["error_code"]) == (400, "INVALID_STATE")
    assert "7077" in got.json()["message"]


def test_http_mappings_are_shown_at_external_url() -> None:
    planner = PortPlanner(ids=Ids(), server_url="http://127.0.0.1:8080", external_url="https://bricks.example.com")
    assert planner.proxy_url("c") == "https://bricks.example.com/ports/c/"
