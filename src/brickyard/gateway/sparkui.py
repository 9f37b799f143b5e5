"""`/spark-ui/{cluster_id}/...`: the Spark UI of a cluster, proxied by this server.

Programs send their token as a bearer. Browsers get a link that contains a pass (`/spark-ui/{cluster_id}/~PASS/...`): see
`services/uilinks.py`.
The cluster's answers are streamed; redirects and links are rewritten to lead back here. Websockets are carried too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol
from urllib.parse import parse_qs

import aiohttp
import structlog
from starlette.types import Receive, Scope, Send
from yarl import URL

from brickyard.api.edge.authentication import Authenticator
from brickyard.api.edge.dialects import PLAIN
from brickyard.api.edge.streaming import until_gone
from brickyard.api.edge.websockets import refusing
from brickyard.domain.errors import ApiError, ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.gateway import pages
from brickyard.gateway.ways import short
from brickyard.gateway.websockets import Client, Target, Unreachable, Websockets
from brickyard.services.caller import Caller
from brickyard.services.uilinks import UiLinks

PREFIX = "/spark-ui/"
MAX_REWRITTEN = 8 << 20  # bytes of a page or of data that are searched for links; the rest passes unchanged
MAX_FORM = 16 << 10
CHUNK = 256 << 10
MAX_SESSIONS = 64  # clusters whose connections are kept open
_PATH = re.compile(r"/spark-ui/([A-Za-z0-9-]{1,64})(?:/~([A-Za-z0-9_-]{1,600}))?(/[!-\[\]-~]*)?")
_DOTS = re.compile(r"/(\.|%2e){1,2}(?=[/;?]|$)", re.IGNORECASE)  # "." and ".." segments, plain or percent-encoded
_LOGS = re.compile(r"/executor-logs/(\d{1,9})/(stdout|stderr)")
_PASSED_ON = frozenset({b"accept", b"accept-language", b"if-none-match", b"if-modified-since", b"range"})
_HISTORY = re.compile(r"/(history|static|api|logPage)(/|$)")  # a history server's own; with a query, also its run list at "/"
_TITLES = {401: "Sign in", 403: "Not allowed", 404: "Not found", 405: "Method not allowed", 503: "Temporarily unavailable"}

log = structlog.get_logger(__name__)


class Upstream(NamedTuple):
    """The location of a cluster's UI: its base URL, the token that it requires, the path below which a history server has the
    pages of the run shown, and, if it is in a separate network, the Unix socket that leads to it."""

    url: str
    bearer: str
    run: str = ""
    way: str = ""

    def elsewhere(self, path: str, query: str) -> str:
        """The actual path of a page requested at a live UI's path; "" if the paths are the same."""
        if not path:
            return f"{self.run}/jobs/" if self.run else "/"
        if not self.run or _HISTORY.match(path) or (path == "/" and query):
            return ""
        page = self.run + ("/jobs/" if path == "/" else path)
        return page + (f"?{query}" if query else "")


class Sources(Protocol):
    """Finds the UI of a cluster."""

    async def find(self, caller: Caller, cluster_id: str) -> Upstream:
        """Raises ApiError."""
        ...

    async def check(self, caller: Caller, cluster_id: str) -> None:
        """Raises ApiError if the caller may not, or no longer, see the cluster's UI."""
        ...

    def forget(self, cluster_id: str) -> None:
        """Call this when the cached location of the UI does not answer."""
        ...

    async def executor_log(self, caller: Caller, cluster_id: str, executor: int, stream: str) -> bytes:
        """The end of an executor's output. Raises ApiError."""
        ...


class _Asked(NamedTuple):
    """A request: the path within the UI, and the external prefix of the UI."""

    cluster_id: str
    prefix: str
    path: str


class MethodNotAllowed(ApiError):
    error_code = "INVALID_PARAMETER_VALUE"
    http_status = 405


class _BrokeOff(Exception):
    """The cluster's answer broke off after its start."""


class SparkUi:
    """The ASGI application mounted at `PREFIX`."""

    def __init__(self, *, authenticator: Authenticator, links: UiLinks, sources: Sources) -> None:
        self._authenticator = authenticator
        self._links = links
        self._sources = sources
        self._websockets = Websockets()
        self._sessions: dict[str, aiohttp.ClientSession] = {}  # by way, most recently used last
        self._closing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Closes all connections."""
        for way in list(self._sessions):
            self._close(way)
        await asyncio.gather(*self._closing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        serve, answer = self._serve, send
        if scope["type"] == "websocket":
            await receive()  # the client asks; it gets a websocket or an HTTP answer
            serve, answer = self._carry, refusing(send)
        # Matches the raw path: a decoded path of another kind could look like one of ours.
        match = _PATH.fullmatch((scope.get("raw_path") or scope["path"].encode()).decode("latin-1"))
        cluster_id = match.group(1) if match else ""
        try:
            await serve(match, scope, receive, send)
        except ApiError as error:
            await self._refuse(scope, answer, error, cluster_id)
        except _BrokeOff:
            log.info("spark_ui_broke_off", cluster_id=cluster_id)
            raise
        except Exception:
            log.exception("spark_ui_failed", path=cluster_id)
            await self._refuse(scope, answer, ApiError("The server failed to answer this request. Its log says why."), cluster_id)

    async def _serve(self, match: re.Match[str] | None, scope: Scope, receive: Receive, send: Send) -> None:
        cluster_id, given, path = _parts(match)
        if given == "login" and scope["method"] == "POST":
            await self._login(cluster_id, receive, send)
            return
        if scope["method"] == "OPTIONS" and given:
            await _allow(send)
            return
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed("The Spark UI is read-only: use GET.")
        caller = await self._caller(scope, cluster_id, given)
        asked = _Asked(cluster_id, _prefix(cluster_id, given), path)
        if logs := _LOGS.fullmatch(asked.path):
            text = await self._sources.executor_log(caller, cluster_id, int(logs.group(1)), logs.group(2))
            await _send(send, 200, text, b"text/plain; charset=utf-8")
            return
        upstream = await self._sources.find(caller, cluster_id)
        if target := upstream.elsewhere(asked.path, scope["query_string"].decode("latin-1")):
            await _redirect(send, asked.prefix + target)
            return
        await self._forward(upstream, asked, scope, receive, send)

    async def _carry(self, match: re.Match[str] | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Carries a websocket, for as long as its caller may have it."""
        cluster_id, given, path = _parts(match)
        caller = await self._caller(scope, cluster_id, given)
        upstream = await self._sources.find(caller, cluster_id)
        url, headers = _target(upstream, _Asked(cluster_id, _prefix(cluster_id, given), path), scope)

        async def check() -> None:
            await self._sources.check(await self._caller(scope, cluster_id, given), cluster_id)

        try:
            await self._websockets.carry(
                Target(url, headers, upstream.way, scope["subprotocols"]),
                Client(caller.user_name, receive, send, check),
            )
        except Unreachable as error:
            self._sources.forget(cluster_id)
            raise _silent(cluster_id) from error

    async def _caller(self, scope: Scope, cluster_id: str, given: str | None) -> Caller:
        if given:
            return await self._authenticator.of_link(given, cluster_id)
        return await self._authenticator.of_headers(
            scope["headers"], missing="The Spark UI requires permission to attach to the cluster."
        )

    async def _login(self, cluster_id: str, receive: Receive, send: Send) -> None:
        """Turns the form's token into a link. Using the link checks whether the user may attach."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MAX_FORM or not message.get("more_body"):
                break
        token = parse_qs(body[:MAX_FORM].decode("latin-1")).get("token", [""])[-1].strip()
        caller = await self._authenticator.of_token(token)
        await _redirect(send, f"/spark-ui/{cluster_id}/~{self._links.make(caller, cluster_id)[0]}/")

    async def _forward(self, upstream: Upstream, asked: _Asked, scope: Scope, receive: Receive, send: Send) -> None:
        url, headers = _target(upstream, asked, scope)
        try:
            async with self._open(upstream.way).request(scope["method"], url, headers=headers, allow_redirects=False) as response:
                answer = _Answer(scope["method"], asyncio.create_task(until_gone(receive)), send)
                await answer.pass_on(response, asked)
        except (aiohttp.ClientConnectionError, TimeoutError) as error:
            self._sources.forget(asked.cluster_id)
            raise _silent(asked.cluster_id) from error

    async def _refuse(self, scope: Scope, send: Send, error: ApiError, cluster_id: str) -> None:
        """Sends the error as a page for browsers and in the API's format for programs."""
        status = error.http_status
        if b"text/html" not in dict(scope["headers"]).get(b"accept", b""):
            reply = PLAIN.reply(error)
            await _send(send, status, reply.body, b"application/json", reply.headers)
        elif status == 401 and cluster_id:
            await _send(send, status, pages.login_page(cluster_id, error.message), b"text/html; charset=utf-8")
        else:
            body = pages.error_page(_TITLES.get(status, "Request failed"), error.message)
            await _send(send, status, body, b"text/html; charset=utf-8")

    def _open(self, way: str) -> aiohttp.ClientSession:
        session = self._sessions.pop(way, None)
        if session is None:
            session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=120),
                connector=aiohttp.UnixConnector(short(way), limit=32)
                if way
                else aiohttp.TCPConnector(limit=200, limit_per_host=32),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        self._sessions[way] = session
        if len(self._sessions) > MAX_SESSIONS:
            self._close(next(iter(self._sessions)))
        return session

    def _close(self, way: str) -> None:
        """Closes its connections; requests in progress there break off."""
        if (session := self._sessions.pop(way, None)) is not None:
            closing = asyncio.create_task(session.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


class _Answer:
    """Streams the cluster's answer to the client, no faster than the client reads."""

    def __init__(self, method: str, gone: asyncio.Task[None], send: Send) -> None:
        self._method = method
        self._gone = gone
        self._send = send

    async def pass_on(self, response: aiohttp.ClientResponse, asked: _Asked) -> None:
        """Raises aiohttp's errors only before the answer has begun."""
        try:
            given = [(bytes(name), bytes(value)) for name, value in response.raw_headers]
            headers = pages.response_headers(given, prefix=asked.prefix)
            rewrite = {"text/html": pages.page, "application/json": pages.data}.get(response.content_type)
            first = rewrite(await _up_to(response.content, MAX_REWRITTEN), prefix=asked.prefix) if rewrite else b""
            await self._send({"type": "http.response.start", "status": response.status, "headers": headers})
            await self._pieces(first, response, asked)
        finally:
            self._gone.cancel()

    async def _pieces(self, first: bytes, response: aiohttp.ClientResponse, asked: _Asked) -> None:
        if self._method != "HEAD":
            if first:
                await self._send({"type": "http.response.body", "body": first, "more_body": True})
            try:
                async for chunk in response.content.iter_chunked(CHUNK):
                    if self._gone.done():
                        return
                    await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            except (aiohttp.ClientError, TimeoutError) as error:
                # The answer must not look complete: this error makes the server close the connection.
                raise _BrokeOff(asked.cluster_id) from error
        await self._send({"type": "http.response.body", "body": b""})


def _parts(match: re.Match[str] | None) -> tuple[str, str | None, str]:
    """The cluster, the pass in the path if there is one, and the path within the UI."""
    if match is None or _DOTS.search(match.group(3) or ""):
        raise ResourceDoesNotExist("The Spark UI of a cluster is at /spark-ui/CLUSTER-ID/.")
    cluster_id, given, path = match.groups()
    return cluster_id, given, path or ""


def _prefix(cluster_id: str, given: str | None) -> str:
    return f"/spark-ui/{cluster_id}" + (f"/~{given}" if given else "")


def _target(upstream: Upstream, asked: _Asked, scope: Scope) -> tuple[URL, dict[str, str]]:
    """The URL of a page at the cluster, and the headers for it."""
    query = scope["query_string"].decode("latin-1")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"] if name in _PASSED_ON}
    headers |= {
        "Authorization": f"Bearer {upstream.bearer}",
        "X-Forwarded-Context": asked.prefix,
        "Accept-Encoding": "identity",
    }
    return URL(upstream.url + asked.path + (f"?{query}" if query else ""), encoded=True), headers


def _silent(cluster_id: str) -> TemporarilyUnavailable:
    return TemporarilyUnavailable(f"The Spark UI of cluster {cluster_id} does not answer. Try again.")


async def _up_to(content: aiohttp.StreamReader, limit: int) -> bytes:
    """Reads the content, up to about `limit` bytes."""
    parts, size = [], 0
    while size < limit and (chunk := await content.read(min(CHUNK, limit - size))):
        parts.append(chunk)
        size += len(chunk)
    return b"".join(parts)


async def _allow(send: Send) -> None:
    """Answers a CORS preflight request: to the browser, the page of Spark's scripts and this server are different origins."""
    await send({"type": "http.response.start", "status": 204, "headers": [*pages.HEADERS, *pages.ALLOWED]})
    await send({"type": "http.response.body", "body": b""})


async def _redirect(send: Send, target: str) -> None:
    headers = [
        (b"location", target.encode("latin-1")),
        (b"content-length", b"0"),
        (b"cache-control", b"no-store"),
        *pages.HEADERS,
    ]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _send(send: Send, status: int, body: bytes, kind: bytes, extra: Iterable[tuple[str, str]] = ()) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")]
    headers += [(name.encode(), value.encode()) for name, value in extra]
    # Our own page may submit its form, since it contains nothing from a cluster.
    walls = [
        (name, value) for name, value in pages.HEADERS if name not in (b"content-security-policy", b"access-control-allow-origin")
    ]
    csp = (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
    )
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *walls, csp]})
    await send({"type": "http.response.body", "body": body})
