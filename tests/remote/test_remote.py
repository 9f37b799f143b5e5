"""`brickyard ui --workspace`, over HTTP: what goes to the workspace, what comes back, and who may ask."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from brickyard.api.app import all_operations
from brickyard.api.edge.openapi import document
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.domain.errors import ApiError, PermissionDenied, TemporarilyUnavailable
from brickyard.features.credentials.loginlinks import LIFETIME_MS
from brickyard.plan.browsers import here_by_name
from brickyard.providers.simulated import SimulatedProvider
from brickyard.remote.lacking import ADDITIONS, VALIDATION, lacking
from brickyard.remote.passing import passes
from brickyard.remote.sessions import SESSION_MS, LinkedSessions
from brickyard.remote.token import TokenFile, TokenTrouble
from brickyard.remote.workspace import NoWorkspace, WrongUrl, workspace_url
from brickyard.testing.builders import SMALL
from brickyard.testing.clock import ManualClock
from tests.support.patience import PATIENCE_S, until
from tests.support.remote import RemoteUi, StandIn, remote_ui, standing_in
from tests.support.server import TOKEN, Server

SOURCES = Path(__file__).parents[2] / "ui" / "src"
NEW: dict[str, Any] = {
    "cluster_name": "made",
    "spark_version": "17.3.x-scala2.13",
    "node_type_id": SMALL.node_type_id,
    "num_workers": 1,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    instances = SimulatedProvider(node_types=[SMALL])
    with Server.running(tmp_path_factory.mktemp("behind"), provider="simulated", instances=instances) as running:
        yield running


@pytest.fixture(scope="module")
def databricks(server: Server) -> Iterator[StandIn]:
    with standing_in(server.url) as found:
        yield found


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def ui(databricks: StandIn, token_file: Path) -> Iterator[RemoteUi]:
    databricks.heard.clear()
    databricks.answers.clear()
    with remote_ui(databricks.url, token_file) as running:
        yield running


def names(answer: requests.Response) -> list[str]:
    return [each["cluster_name"] for each in answer.json().get("clusters", [])]


def test_calls_reach_the_workspace_with_its_token_and_nothing_of_the_browser(ui: RemoteUi, databricks: StandIn) -> None:
    browser = ui.browser()
    made = browser.post(
        f"{ui.url}/api/2.1/clusters/create", json=NEW, headers={"X-Own": "1", "Origin": ui.url}, timeout=PATIENCE_S
    )
    assert made.status_code == 200
    heard = databricks.heard[-1]
    assert heard.headers["authorization"] == f"Bearer {TOKEN}"
    assert not {"cookie", "origin", "x-csrf-token", "x-own", "referer"} & set(heard.headers)
    assert heard.headers["host"] == databricks.url.removeprefix("http://")
    listed = browser.get(f"{ui.url}/api/2.0/clusters/list", params={"x": "a/b c"}, timeout=PATIENCE_S)
    assert "made" in names(listed)
    assert databricks.heard[-1].path == "/api/2.0/clusters/list?x=a%2Fb+c"
    assert "set-cookie" not in listed.headers
    assert listed.headers["content-security-policy"].startswith("sandbox")
    assert listed.headers["cache-control"] == "no-store"
    for answer in (made, listed, browser.get(f"{ui.url}/login/session", timeout=PATIENCE_S)):
        assert TOKEN not in answer.text + str(answer.headers)


def test_the_page_is_told_what_the_workspace_lacks(ui: RemoteUi, server: Server, databricks: StandIn, token_file: Path) -> None:
    said = ui.browser().get(f"{ui.url}/login/session", timeout=PATIENCE_S).json()
    assert said["workspace"] == databricks.url
    assert said["lacks"] == list(ADDITIONS)
    with remote_ui(server.url, token_file) as other:
        browser = other.browser()
        assert browser.get(f"{other.url}/login/session", timeout=PATIENCE_S).json()["lacks"] == []
        stream = browser.get(f"{other.url}/api/2.1/changes", stream=True, timeout=PATIENCE_S)
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert next(stream.iter_lines()).startswith(b"retry:")
        stream.close()


@pytest.mark.parametrize("condition", [{"validate_only": True}, {"validate_only": "true"}, {"expected_spec": {}}])
def test_what_was_only_to_be_checked_is_never_done(ui: RemoteUi, databricks: StandIn, condition: dict[str, Any]) -> None:
    browser = ui.browser()
    before = len(databricks.heard)
    answer = browser.post(f"{ui.url}/api/2.1/clusters/create", json={**NEW, **condition}, timeout=PATIENCE_S)
    assert answer.status_code == 404
    assert next(iter(condition)) in answer.json()["message"]
    assert len(databricks.heard) == before


def test_only_a_browser_with_the_link_gets_in_and_the_link_works_once(ui: RemoteUi, databricks: StandIn) -> None:
    stranger = requests.Session()
    asked = f"{ui.url}/api/2.0/clusters/list"
    assert stranger.get(asked, timeout=PATIENCE_S).status_code == 401
    assert stranger.get(asked, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S).status_code == 401
    assert stranger.get(f"{ui.url}/login/session", timeout=PATIENCE_S).status_code == 401
    assert stranger.head(ui.link, timeout=PATIENCE_S).status_code == 404  # previews use nothing up
    browser = ui.browser()
    assert browser.get(asked, timeout=PATIENCE_S).status_code == 200
    again = stranger.get(ui.link, timeout=PATIENCE_S)
    assert (again.status_code, "used before" in again.text) == (401, True)
    out = browser.post(f"{ui.url}/logout", data={"csrf_token": "wrong"}, timeout=PATIENCE_S)
    assert out.status_code == 403
    out = browser.post(f"{ui.url}/logout", data={"csrf_token": browser.headers["X-CSRF-Token"]}, timeout=PATIENCE_S)
    assert out.status_code == 200
    assert browser.get(asked, timeout=PATIENCE_S).status_code == 401


@pytest.mark.parametrize(
    ("headers", "drop"),
    [
        ({"Host": "evil.example:80"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),  # another port of this machine
        ({}, True),
    ],
)
def test_other_pages_cannot_act(ui: RemoteUi, databricks: StandIn, headers: dict[str, str], drop: bool) -> None:
    browser = ui.browser()
    if drop:
        del browser.headers["X-CSRF-Token"]
    before = len(databricks.heard)
    answer = browser.post(f"{ui.url}/api/2.1/clusters/create", json=NEW, headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == 403
    assert len(databricks.heard) == before


def test_another_name_of_this_machine_sees_nothing(ui: RemoteUi) -> None:
    for path in ("/", "/compute", "/login", "/login/session"):
        assert requests.get(ui.url + path, headers={"Host": "rebound.example"}, timeout=PATIENCE_S).status_code == 403
    assert requests.get(f"{ui.url}/login", headers={"Host": "localhost:9000"}, timeout=PATIENCE_S).status_code == 200


@pytest.mark.parametrize(
    "path", ["/spark-ui/x/", "/oidc/v1/token", "/api/../login", "/api/2.0/%2e%2e/%2e%2e/login", "/api//x", "/metrics"]
)
def test_only_the_api_is_passed_on(ui: RemoteUi, databricks: StandIn, path: str) -> None:
    browser = ui.browser()
    before = len(databricks.heard)
    host, port = ui.url.removeprefix("http://").split(":")
    cookies = "; ".join(f"{each.name}={each.value}" for each in browser.cookies)
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as raw:  # clients tidy paths up
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {cookies}\r\nConnection: close\r\n\r\n".encode())
        assert b" 404 " in raw.makefile("rb").readline()
    assert len(databricks.heard) == before


def test_redirects_are_not_followed_and_a_refused_token_says_which_file(
    ui: RemoteUi, databricks: StandIn, token_file: Path
) -> None:
    browser, asked = ui.browser(), f"{ui.url}/api/2.0/clusters/list"
    databricks.answers["/api/2.0/clusters/list"] = (302, {"location": "http://127.0.0.1:9/"}, b"")
    answer = browser.get(asked, allow_redirects=False, timeout=PATIENCE_S)
    assert (answer.status_code, "location" in answer.headers) == (502, False)
    assert "redirects" in answer.json()["message"]
    databricks.answers["/api/2.0/clusters/list"] = (401, {}, b'{"message": "Token is expired."}')
    answer = browser.get(asked, timeout=PATIENCE_S)
    assert answer.status_code == 403  # 401 would say that the browser's session has ended
    assert "Token is expired" in answer.json()["message"]
    assert token_file.name in answer.json()["message"]


def test_the_token_is_read_again_when_its_file_changes(
    ui: RemoteUi, server: Server, databricks: StandIn, token_file: Path
) -> None:
    browser, asked = ui.browser(), f"{ui.url}/api/2.0/clusters/list"
    other = server.client().tokens.create(comment="another").token_value or ""
    token_file.write_text(other)
    assert browser.get(asked, timeout=PATIENCE_S).status_code == 200
    assert databricks.heard[-1].headers["authorization"] == f"Bearer {other}"
    token_file.unlink()
    answer = browser.get(asked, timeout=PATIENCE_S)
    assert (answer.status_code, "No such file" in answer.json()["message"]) == (403, True)


def test_a_stream_ends_with_its_reader(server: Server, token_file: Path) -> None:
    def streams() -> int:
        found = psutil.Process().net_connections("tcp")
        port = int(server.url.rpartition(":")[2])
        return sum(bool(each.raddr) and each.raddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in found)

    with remote_ui(server.url, token_file) as ui:
        browser = ui.browser()
        before = streams()
        readers = [browser.get(f"{ui.url}/api/2.1/changes", stream=True, timeout=PATIENCE_S) for _ in range(5)]
        until(lambda: streams() >= before + 4)  # one may go over a connection that was there
        for each in readers:
            each.close()
        until(lambda: streams() <= before)


def test_a_body_may_be_so_large(ui: RemoteUi, databricks: StandIn) -> None:
    browser = ui.browser()
    before = len(databricks.heard)
    answer = browser.post(f"{ui.url}/api/2.0/dbfs/put", data=b"x" * (10 * 1024 * 1024 + 1), timeout=PATIENCE_S)
    assert answer.status_code == 413
    assert len(databricks.heard) == before


def test_a_workspace_that_has_gone_is_said_in_words(server: Server, token_file: Path) -> None:
    with standing_in(server.url) as gone, remote_ui(gone.url, token_file) as ui:
        browser = ui.browser()
        gone.answers["/api/2.0/clusters/list"] = (500, {}, b"{}")
        assert browser.get(f"{ui.url}/api/2.0/clusters/list", timeout=PATIENCE_S).status_code == 500
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
            with pytest.raises(TemporarilyUnavailable, match="cannot be reached"), remote_ui(nowhere, token_file):
                pass


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ((401, {}, b"Unauthorized"), PermissionDenied, "refuses the token"),
        ((403, {}, b'{"message": "Invalid access token."}'), PermissionDenied, "Invalid access token"),
        ((303, {"location": "https://login.example"}, b""), NoWorkspace, "redirects"),
        ((200, {"content-type": "text/html"}, b"<html>"), NoWorkspace, "no JSON"),
        ((200, {}, b"[]"), NoWorkspace, "whose token"),
        ((404, {}, b""), NoWorkspace, "status 404"),
        ((503, {}, b""), TemporarilyUnavailable, "status 503"),
    ],
)
def test_what_cannot_be_used_ends_at_once_with_the_reason(
    databricks: StandIn, token_file: Path, answer: tuple[int, dict[str, str], bytes], error: type[ApiError], says: str
) -> None:
    databricks.answers = {"/api/2.0/preview/scim/v2/Me": answer}
    try:
        with pytest.raises(error, match=says), remote_ui(databricks.url, token_file):
            pass
    finally:
        databricks.answers = {}


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://adb-1.2.azuredatabricks.net/?o=1", "https://adb-1.2.azuredatabricks.net"),
        ("dbc-1.cloud.databricks.com", "https://dbc-1.cloud.databricks.com"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
    ],
)
def test_urls_of_workspaces(given: str, url: str) -> None:
    assert workspace_url(given) == url


@pytest.mark.parametrize("given", ["http://server.example", "ftp://x", "https://", "https://me:pw@host", "https://h:x", ""])
def test_urls_that_are_refused(given: str) -> None:
    with pytest.raises(WrongUrl):
        workspace_url(given)


def test_plain_http_has_to_be_wanted() -> None:
    assert workspace_url("http://server.example", plain_http=True) == "http://server.example"


@pytest.mark.parametrize("content", [b"", b"two words", b"a\nb", b"\xff\xfe", b"x" * 9000])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(TokenTrouble, match="--token-file"):
        TokenFile(tmp_path / "t").read()


def test_links_and_sessions_end() -> None:
    clock = ManualClock()
    sessions = LinkedSessions(Caller(user_name="u", user_id="1", is_admin=False, token_id=""), clock=clock, ids=Ids())
    late = sessions.link()
    clock.advance(ms=LIFETIME_MS)
    assert sessions.follow(late) is None
    cookie = sessions.follow(sessions.link())
    assert cookie
    assert asyncio.run(sessions.find(cookie)) is not None
    clock.advance(ms=SESSION_MS)
    assert asyncio.run(sessions.find(cookie)) is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8090", "[::1]:8090"])
def test_names_of_this_machine(host: str) -> None:
    assert here_by_name(host)


@pytest.mark.parametrize("host", ["", "localhost.evil.example", "127.0.0.1.evil.example", "a@localhost", "[::1", "10.0.0.1"])
def test_other_names(host: str) -> None:
    assert not here_by_name(host)


@pytest.mark.parametrize("path", [b"/api/2.0/fs/files/Volumes/a%20b", b"/v1/clusters/x"])
def test_paths_that_pass(path: bytes) -> None:
    assert passes(path)


@pytest.mark.parametrize(
    "path", [b"/apix/", b"/api/a%5cb", b"/api/%00", b"/api/a/%2E./b", b"/api/%2f%2fhost", b"/login", b"/api/\xff"]
)
def test_paths_that_do_not(path: bytes) -> None:
    assert not passes(path)


def test_the_additions_are_in_our_document_and_everything_else_that_the_page_calls_is_of_databricks() -> None:
    ours = document(all_operations())
    assert lacking(ours) == ()
    assert lacking({"info": {"title": "Other"}, "paths": ours["paths"]}) == ADDITIONS
    assert lacking(None) == ADDITIONS
    text = "\n".join(each.read_text() for each in SOURCES.rglob("*.ts*") if each.name != "schema.d.ts")
    called = set(re.findall(r'["`](/(?:api/[\d.]+|v1)/[\w/{}.-]+)', text))
    assert called, "the page calls nothing"
    unknown = {
        each for each in called if not each.startswith((*ADDITIONS, "/api/2.1/clusters/logs/")) and not _of_databricks(each)
    }
    assert not unknown
    assert {each for each in ADDITIONS if each not in text} == set() and VALIDATION in text


# Documented by Databricks.
_THEIRS = re.compile(
    r"/api/1\.2/(contexts|commands)/\w+|/api/2\.[01]/clusters/(create|edit|list|get|start|delete|restart|pin|unpin|resize|events"
    r"|permanent-delete|list-node-types|spark-versions)|/api/2\.0/libraries/[\w-]+|/api/2\.0/policies/clusters(/(?!try)[\w-]+)?$"
    r"|/api/2\.0/policy-families|/api/2\.0/instance-pools/(?!details)\w+|/api/2\.0/permissions/.*|/api/2\.0/token/\w+"
    r"|/api/2\.1/unity-catalog/(catalogs|schemas|tables|volumes)(/[\w{}]+)?$|/api/2\.1/unity-catalog/current-metastore-assignment$"
    r"|/api/2\.0/dbfs/[\w-]+$|/api/2\.2/jobs/(runs/)?[\w-]+$"
    r"|/api/2\.0/sql/(warehouses(/[\w{}/]+)?|config/warehouses|history/queries|queries|statements(/[\w{}/]+)?)$"
    r"|/api/2\.0/notification-destinations(/[\w{}]+)?$"
    r"|/api/2\.0/fs/(files|directories|create-upload-part-urls)|/api/2\.0/workspace(/[\w-]+|-files(/import-file)?)$"
    r"|/api/2\.0/token-management/.+|/api/2\.0/preview/scim/v2/.+|/api/2\.0/accounts/servicePrincipals/[^/]+/credentials/secrets"
)


def _of_databricks(path: str) -> bool:
    return _THEIRS.match(path) is not None


def test_json_of_the_stand_in_is_what_a_client_sees(ui: RemoteUi) -> None:
    answer = ui.browser().get(f"{ui.url}/api/2.1/machine", timeout=PATIENCE_S)
    assert (answer.status_code, json.loads(answer.text)["error_code"]) == (404, "ENDPOINT_NOT_FOUND")
