"""The Spark UI through the server: who may see it, where its links lead, and what its pages may not do."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import math
import re
import sys
from pathlib import Path

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from brickyard.config.settings import Settings
from brickyard.domain.errors import ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.features.credentials.uilinks import LIFETIME_MS
from brickyard.gateway import pages
from brickyard.gateway.answers import MAX_REWRITTEN
from brickyard.gateway.connections import MAX_SESSIONS
from brickyard.gateway.history import HistoryServer, HistoryServers
from brickyard.gateway.jws import signed_token
from brickyard.gateway.pages import Upstream
from brickyard.logs import keep
from brickyard.runtime import installer
from brickyard.runtime.catalogue import rows
from brickyard.runtime.installed import runtime_home
from brickyard.runtime.inuse import RuntimeInUse
from brickyard.storage.directory import Storage
from tests.gateway.uiworld import ID, world
from tests.support.patience import PATIENCE_S


async def test_a_token_opens_it_and_everything_leads_back_here(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {await w.token('me@example.com')}", "Cookie": "secret=1"}
        for start in (f"/spark-ui/{ID}", f"/spark-ui/{ID}/"):
            async with http.get(w.url + start, headers=headers) as answer:
                text = await answer.text()
                assert (answer.status, answer.url.path) == (200, f"/spark-ui/{ID}/jobs/")
        assert f'href="/spark-ui/{ID}/stages/"' in text
        assert f'href="/spark-ui/{ID}/executor-logs/3/stderr"' in text
        asked = w.spark.seen[-1]
        assert asked.headers["Authorization"] == "Bearer signed", "the caller's own token stays here"
        assert "Cookie" not in asked.headers
        async with http.get(f"{w.url}/spark-ui/{ID}/a%2Fb/?x=1%202&y=", headers=headers) as answer:
            assert await answer.text() == "/a%2Fb/?x=1%202&y="
        async with http.get(f"{w.url}/spark-ui/{ID}/executor-logs/3/stderr", headers=headers) as answer:
            assert (await answer.text(), answer.content_type) == ("<b>stderr of 3</b>", "text/plain")
        assert w.noted == [("spark_ui.opened", "me@example.com", {"cluster_id": ID})], "one entry, not one for each page"


@pytest.mark.parametrize(
    "path", [f"{ID}%2F@127.0.0.1:1/", f"{ID}%2Fjobs/", f"{ID}/../other/", f"{ID}/a/%2e%2E/b", f"{ID}/.", f"{ID}@x/", f"{ID}/a\\b"]
)
async def test_paths_that_only_look_like_one_of_a_cluster_are_refused(tmp_path: Path, path: str) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {await w.token('me@example.com')}"}
        async with http.get(URL(f"{w.url}/spark-ui/{path}", encoded=True), headers=headers) as answer:
            assert answer.status in (400, 404)
        assert not w.spark.seen


async def test_a_link_ends_with_the_token_that_asked_for_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        first, second = [await w.tokens.authenticate(await w.token("me@example.com")) for _ in range(2)]
        assert first is not None and second is not None
        mine, other = [w.links.make(caller, ID)[0] for caller in (first, second)]
        await w.tokens.delete(first, first.token_id)
        for link, status in ((mine, 401), (other, 200)):
            async with http.get(f"{w.url}/spark-ui/{ID}/~{link}/jobs/") as answer:
                assert answer.status == status
        await w.tokens.ensure_admin("root@example.com", "dapi" + "1" * 32)
        admin = await w.tokens.authenticate("dapi" + "1" * 32)
        assert admin is not None
        link = w.links.make(admin, ID)[0]
        assert await w.links.caller(link, ID) is not None
        w.clock.advance(ms=1000)
        await w.tokens.ensure_admin("root@example.com", "dapi" + "2" * 32)
        assert await w.links.caller(link, ID) is None, "the administrator's token was replaced"


async def test_what_a_cluster_sends_is_walled_in(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {await w.token('me@example.com')}"}
        async with http.get(f"{w.url}/spark-ui/{ID}/cookie", headers=headers) as answer:
            assert "Set-Cookie" not in answer.headers
            assert answer.headers["Content-Security-Policy"].startswith("sandbox allow-scripts ")
            assert "allow-same-origin" not in answer.headers["Content-Security-Policy"]
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["ETag"] == '"1"'
        async with http.get(f"{w.url}/spark-ui/{ID}/elsewhere", headers=headers, allow_redirects=False) as answer:
            assert answer.headers["Location"] == f"/spark-ui/{ID}/steal?x=1"
        async with http.post(f"{w.url}/spark-ui/{ID}/jobs/job/kill/?id=1", headers=headers) as answer:
            assert answer.status == 405


async def test_answers_stream_and_a_broken_one_does_not_seem_whole(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {await w.token('me@example.com')}"}
        async with http.get(f"{w.url}/spark-ui/{ID}/stream", headers=headers) as answer:
            assert await answer.content.readany() == b"first", "before the rest is there"
            w.spark.more.set()
            assert await answer.read() == b"second"
        async with http.get(f"{w.url}/spark-ui/{ID}/large", headers=headers) as answer:
            assert len(await answer.read()) == MAX_REWRITTEN * 2
        with pytest.raises(aiohttp.ClientPayloadError):
            async with http.get(f"{w.url}/spark-ui/{ID}/broken", headers=headers) as answer:
                await answer.read()


async def test_an_answer_goes_on_however_many_other_web_servers_are_asked(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {await w.token('me@example.com')}"}
        async with http.get(f"{w.url}/spark-ui/{ID}/stream", headers=headers) as slow:
            assert await slow.content.readany() == b"first"
            for number in range(MAX_SESSIONS + 1):
                w.sources.upstream = w.sources.upstream._replace(url=f"{w.spark.url}/{number}")
                async with http.get(f"{w.url}/spark-ui/{ID}/other", headers=headers) as answer:
                    assert (await answer.text()).startswith(f"/{number}/")
            w.spark.more.set()
            assert await slow.read() == b"second"
        async with asyncio.timeout(PATIENCE_S):
            while len(w.ui._connections._sessions) > MAX_SESSIONS:
                await asyncio.sleep(0.01)


async def test_browsers_get_a_link_that_opens_one_cluster(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession(headers={"Accept": "text/html"}) as http:
        async with http.get(f"{w.url}/spark-ui/{ID}/jobs/?a=1", allow_redirects=False) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] == f"/login?next=%2Fspark-ui%2F{ID}%2Fjobs%2F%3Fa%3D1"
        token = await w.token("me@example.com")
        cookie = {"Cookie": f"brickyard-session={await w.sessions.begin(token)}"}
        async with http.get(f"{w.url}/spark-ui/{ID}/jobs/", headers=cookie) as answer:
            assert answer.status == 200
            place = answer.url.path
            assert place.endswith("/jobs/")
            assert f'href="{place.removesuffix("/jobs/")}/stages/"' in await answer.text()
            assert token not in str(answer.url)
        pass_ = place.split("/")[3]
        # Spark's scripts run in an origin of their own and add headers, so browsers ask first whether they may.
        script = {"Origin": "null", "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "content-type"}
        async with http.options(f"{w.url}/spark-ui/{ID}/{pass_}/api/v1/applications", headers=script) as answer:
            assert answer.status == 204
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
            assert answer.headers["Access-Control-Allow-Headers"] == "*"
            assert "Access-Control-Allow-Credentials" not in answer.headers
        async with http.options(f"{w.url}/spark-ui/{ID}/api/v1/applications", headers=script) as answer:
            assert answer.status == 405, "nobody's token may be sent along from there"
        async with http.get(f"{w.url}/spark-ui/0101-000000-another0/{pass_}/", headers={"Accept": "*/*"}) as answer:
            assert answer.status == 401
        w.clock.advance(ms=LIFETIME_MS)
        async with http.get(w.url + place, allow_redirects=False) as answer:
            assert answer.headers["Location"] == f"/login?next=%2Fspark-ui%2F{ID}%2Fjobs%2F"


async def test_who_may_not_attach_sees_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        stranger = {"Authorization": f"Bearer {await w.token('stranger@example.com')}"}
        mine = {"Authorization": f"Bearer {await w.token('me@example.com')}"}
        for path, headers, status, code in (
            (f"/spark-ui/{ID}/jobs/", {}, 401, "UNAUTHENTICATED"),
            (f"/spark-ui/{ID}/jobs/", stranger, 403, "PERMISSION_DENIED"),
            (f"/spark-ui/{ID}/executor-logs/1/stdout", stranger, 403, "PERMISSION_DENIED"),
            ("/spark-ui/0101-000000-unknown0/", mine, 404, "RESOURCE_DOES_NOT_EXIST"),
            ("/spark-ui/", mine, 404, "RESOURCE_DOES_NOT_EXIST"),
        ):
            async with http.get(w.url + path, headers=headers) as answer:
                assert (answer.status, (await answer.json())["error_code"]) == (status, code)
        assert w.spark.seen == []


async def test_a_ui_that_has_gone_is_looked_for_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {await w.token('me@example.com')}"}
        w.sources.upstream = Upstream("http://127.0.0.1:1", "x")
        async with http.get(f"{w.url}/spark-ui/{ID}/jobs/", headers=headers) as answer:
            assert answer.status == 503
        assert w.sources.forgotten == [ID]


@pytest.mark.parametrize(
    ("asked", "target"),
    [
        ("", "/history/app-1/jobs/"),
        ("/", "/history/app-1/jobs/"),
        ("/executors/", "/history/app-1/executors/"),
        ("/stages/stage/?id=1&attempt=0", "/history/app-1/stages/stage/?id=1&attempt=0"),
    ],
)
async def test_a_history_server_shows_the_last_run_where_a_live_ui_has_its_pages(tmp_path: Path, asked: str, target: str) -> None:
    async with world(tmp_path, run="/history/app-1") as w, aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {await w.token('me@example.com')}"}
        async with http.get(f"{w.url}/spark-ui/{ID}{asked}", headers=headers, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, f"/spark-ui/{ID}{target}")
        assert w.spark.seen == []


@pytest.mark.parametrize(
    "asked",
    [
        "/?showIncomplete=false",
        "/history/app-0/executors/",
        "/history",
        "/static/webui.js",
        "/api/v1/applications",
        "/logPage/?self&logType=out",
    ],
)
async def test_what_a_history_server_has_itself_is_asked_of_it(tmp_path: Path, asked: str) -> None:
    async with world(tmp_path, run="/history/app-1") as w, aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {await w.token('me@example.com')}"}
        await (await http.get(f"{w.url}/spark-ui/{ID}{asked}", headers=headers, allow_redirects=False)).read()
        assert [request.path_qs for request in w.spark.seen] == [asked]


@given(st.text(alphabet="ab/.:?#@\\%x1", max_size=40))
def test_a_redirect_never_leads_elsewhere(target: str) -> None:
    with contextlib.suppress(ValueError):  # an address that urllib cannot read is an error, not a way out
        found = pages.location(target, prefix="/spark-ui/c")
        assert found.startswith(("/spark-ui/c/", "/spark-ui/c?")) or found == "/spark-ui/c"


def test_the_token_for_sparks_filter_is_a_signed_jws() -> None:
    head, claims, signature = signed_token(b"key" * 11).encode().split(b".")
    assert json.loads(base64.urlsafe_b64decode(head + b"==")) == {"alg": "HS256", "typ": "JWT"}
    assert json.loads(base64.urlsafe_b64decode(claims + b"=="))["exp"] > 0
    wanted = hmac.new(b"key" * 11, head + b"." + claims, hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + b"=") == wanted


def test_event_logs_are_kept_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(keep, "MAX_EVENTS_BYTES", 100)
    source = tmp_path / "logs"
    (source / "eventlog").mkdir(parents=True)
    (source / "driver.log").write_bytes(b"x" * 50)
    (source / "eventlog" / "app-1.zstd").write_bytes(b"e" * 60)
    (source / "eventlog" / "app-2.zstd").write_bytes(b"e" * 60)
    keep.keep_logs(source, tmp_path / "kept")
    assert (tmp_path / "kept" / "driver.log").stat().st_size == 10
    assert [path.name for path in (tmp_path / "kept" / "eventlog").iterdir()] == ["app-1.zstd"]
    assert (tmp_path / "kept" / "eventlog" / "app-1.zstd").stat().st_size == 60


async def test_a_cluster_that_left_no_event_log_says_why(tmp_path: Path) -> None:
    history = HistoryServers(settings=Settings(data_dir=tmp_path, cache_dir=tmp_path), storage=Storage(tmp_path))
    with pytest.raises(ResourceDoesNotExist, match=r"spark\.eventLog\.enabled"):
        await history.find(ID, "")
    log = tmp_path / "logs" / ID / "i-1-1" / "executor" / "app-1" / "0" / "stdout"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"hello")
    assert await history.kept_log(ID, re.compile("executor/[^/]+/0/stdout"), 3) == b"llo"
    assert await history.kept_log(ID, re.compile("executor/[^/]+/1/stdout"), 3) is None
    assert await history.kept_log(ID, re.compile("secret"), 3) is None


async def test_a_history_server_that_is_starting_is_not_idle(tmp_path: Path) -> None:
    """One whose cluster has ended is replaced while others are looked after: it was ended before it had read a line."""
    ended: list[tuple[Path, ...]] = []
    first_is_gone = asyncio.Event()

    class Quick:
        key, url, run, alive = b"k" * 32, "http://127.0.0.1:1", "", True

        def __init__(self, _place: Path, logs: tuple[Path, ...]) -> None:
            self.logs = logs
            self.used = math.inf

        async def start(self) -> None:
            if "second" in str(self.logs):
                async with asyncio.timeout(PATIENCE_S):
                    await first_is_gone.wait()

        async def stop(self) -> None:
            ended.append(self.logs)
            first_is_gone.set()

    settings = Settings(data_dir=tmp_path, cache_dir=tmp_path)

    class Servers(HistoryServers):
        def make(self, place: Path, logs: tuple[Path, ...]) -> HistoryServer:
            return Quick(place, logs)

    servers = Servers(settings=settings, storage=Storage(tmp_path), idle_s=0.2)
    for name in ("0101-000000-first", "0101-000000-second"):
        log = tmp_path / "logs" / name / "i-1-1" / "eventlog" / "app"
        log.parent.mkdir(parents=True)
        log.write_bytes(b"hello")
    sweeping = asyncio.create_task(servers.run())
    await servers.find("0101-000000-first", "")
    await servers.find("0101-000000-second", "")
    assert ["first" in str(logs) for logs in ended] == [True], "the first was idle, the second was starting"
    sweeping.cancel()
    await servers.close()


# Stands for a history server: says where it listens, and knows one application.
JAVA = """#!{python}
import http.server
class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'[{{"id": "app-1", "attempts": [{{"startTimeEpoch": 1}}]}}]'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
print(f"HistoryServer started at http://127.0.0.1:{{server.server_port}}", flush=True)
server.serve_forever()
"""


async def test_a_runtime_cannot_be_removed_under_a_history_server(tmp_path: Path) -> None:
    environment = next(runtime.environment for runtime in rows() if runtime.spark_version.startswith("4."))
    home = runtime_home(environment, tmp_path)
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(JAVA.format(python=sys.executable))
    (home / "bin" / "java").chmod(0o755)
    manifest = RuntimeManifest(
        environment=environment, spark_version="4.0.5", scala_version="2.13", home=str(home), python=sys.executable,
        python_version="3", python_base=sys.base_prefix, spark_home=str(home), java_home=str(home), java_real="",
        java_version="17.0.1",
    )  # fmt: skip
    (home / "runtime.json").write_bytes(msgspec.json.encode(manifest))
    log = tmp_path / "logs" / ID / "i-1-1" / "eventlog" / "app"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"hello")

    servers = HistoryServers(settings=Settings(data_dir=tmp_path, cache_dir=tmp_path, isolation="off"), storage=Storage(tmp_path))
    try:
        assert (await servers.find(ID, "")).run == "/history/app-1"
        with pytest.raises(RuntimeInUse):
            await asyncio.to_thread(installer.remove, environment, cache_dir=tmp_path)
        assert (home / "bin" / "java").exists()
    finally:
        await servers.close()
    assert await asyncio.to_thread(installer.remove, environment, cache_dir=tmp_path)
    with pytest.raises(TemporarilyUnavailable, match="none is installed"):
        await servers.find(ID, "")
