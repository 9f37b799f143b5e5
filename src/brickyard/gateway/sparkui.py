"""`/spark-ui/{cluster_id}/...`: the Spark UI of a cluster, proxied by this server.

Programs send their token as a bearer. Browsers that are logged in get a link that contains a pass
(`/spark-ui/{cluster_id}/~PASS/...`): see `services/uilinks.py`.
The cluster's answers are streamed; redirects and links are rewritten to lead back here. Websockets are carried too.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import structlog
from starlette.types import Receive, Scope, Send
from yarl import URL

from brickyard.api.edge.authentication import Authenticator, address_of
from brickyard.api.edge.streaming import until_gone
from brickyard.api.edge.websockets import refusing
from brickyard.domain.audit import UI_OPENED
from brickyard.domain.errors import ApiError, ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.gateway import pages, paths
from brickyard.gateway.answers import BrokeOff, allow, opens_page, pass_on, redirect, refuse, reply_with, with_query
from brickyard.gateway.connections import Connections
from brickyard.gateway.noting import OncePerHour
from brickyard.gateway.websockets import Client, Target, Unreachable, Websockets
from brickyard.services.audit import Note, unnoted
from brickyard.services.caller import Caller
from brickyard.services.uilinks import UiLinks

if TYPE_CHECKING:
    import aiohttp

PREFIX = "/spark-ui/"
READ_S = 120.0  # how long a UI may send nothing
_PATH = re.compile(r"/spark-ui/([A-Za-z0-9-]{1,64})(?:/~([A-Za-z0-9_-]{1,600}))?(/[!-\[\]-~]*)?")
_LOGS = re.compile(r"/executor-logs/(\d{1,9})/(stdout|stderr)")
_PASSED_ON = frozenset({b"accept", b"accept-language", b"if-none-match", b"if-modified-since", b"range"})
_HISTORY = re.compile(r"/(history|static|api|logPage)(/|$)")  # a history server's own; with a query, also its run list at "/"

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


class SparkUi:
    """The ASGI application mounted at `PREFIX`."""

    def __init__(self, *, authenticator: Authenticator, links: UiLinks, sources: Sources, note: Note = unnoted) -> None:
        self._noted = OncePerHour(note)
        self._authenticator = authenticator
        self._links = links
        self._sources = sources
        self._websockets = Websockets()
        self._connections = Connections(read_s=READ_S)

    async def close(self) -> None:
        """Closes all connections."""
        await self._connections.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        serve, answer = self._serve, send
        if scope["type"] == "websocket":
            await receive()  # the client asks; it gets a websocket or an HTTP answer
            serve, answer = self._carry, refusing(send)
        match = _PATH.fullmatch(paths.raw(scope))
        cluster_id = match.group(1) if match else ""
        page = f"{PREFIX}{cluster_id}{(match and match.group(3)) or '/'}" if cluster_id else ""
        try:
            await serve(match, scope, receive, send)
        except ApiError as error:
            await refuse(scope, answer, error, page=page)
        except BrokeOff:
            log.info("spark_ui_broke_off", cluster_id=cluster_id)
            raise
        except Exception:
            log.exception("spark_ui_failed", path=cluster_id)
            await refuse(scope, answer, ApiError("The server failed to answer this request. Its log says why."), page="")

    async def _serve(self, match: re.Match[str] | None, scope: Scope, receive: Receive, send: Send) -> None:
        cluster_id, given, path = _parts(match)
        if scope["method"] == "OPTIONS" and given:
            await allow(send, pages.ALLOWED)
            return
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed("The Spark UI is read-only: use GET.")
        if not given and opens_page(scope):
            await self._lead_in(cluster_id, path, scope, send)
            return
        caller = await self._caller(scope, cluster_id, given)
        asked = _Asked(cluster_id, _prefix(cluster_id, given), path)
        if logs := _LOGS.fullmatch(asked.path):
            text = await self._sources.executor_log(caller, cluster_id, int(logs.group(1)), logs.group(2))
            await reply_with(send, 200, text, b"text/plain; charset=utf-8")
            return
        upstream = await self._sources.find(caller, cluster_id)
        self._noted(UI_OPENED, caller, address=address_of(scope), cluster_id=cluster_id)
        if target := upstream.elsewhere(asked.path, scope["query_string"].decode("latin-1")):
            await redirect(send, asked.prefix + target)
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
                Client(caller, receive, send, check),
            )
        except Unreachable as error:
            self._sources.forget(cluster_id)
            raise _silent(cluster_id) from error

    async def _caller(self, scope: Scope, cluster_id: str, given: str | None) -> Caller:
        if given:
            return await self._authenticator.of_link(given, cluster_id, address=address_of(scope))
        return await self._authenticator.of_headers(
            scope["headers"], address=address_of(scope), missing="The Spark UI requires permission to attach to the cluster."
        )

    async def _lead_in(self, cluster_id: str, path: str, scope: Scope, send: Send) -> None:
        """Leads a browser that is logged in to a link. The cluster's pages never get the session's cookie: it is not
        passed on, and the link opens only them. Using the link checks whether the user may attach."""
        caller = await self._authenticator.of_navigation(scope)
        link = _prefix(cluster_id, self._links.make(caller, cluster_id)[0])
        await redirect(send, link + with_query(path or "/", scope), ())

    async def _forward(self, upstream: Upstream, asked: _Asked, scope: Scope, receive: Receive, send: Send) -> None:
        import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

        url, headers = _target(upstream, asked, scope)
        try:
            session = self._connections.to(upstream.way, upstream.url)
            async with session.request(scope["method"], url, headers=headers, allow_redirects=False) as response:
                await _pass_on(response, asked, scope, receive, send)
        except (aiohttp.ClientConnectionError, TimeoutError) as error:
            self._sources.forget(asked.cluster_id)
            raise _silent(asked.cluster_id) from error


async def _pass_on(response: aiohttp.ClientResponse, asked: _Asked, scope: Scope, receive: Receive, send: Send) -> None:
    given = [(bytes(name), bytes(value)) for name, value in response.raw_headers]
    headers = pages.response_headers(given, prefix=asked.prefix)
    rewrite = {"text/html": pages.page, "application/json": pages.data}.get(response.content_type)
    gone = asyncio.create_task(until_gone(receive))
    try:
        await pass_on(
            response,
            headers,
            send,
            ended=gone.done,
            rewrite=partial(rewrite, prefix=asked.prefix) if rewrite is not None else None,
            without_body=scope["method"] == "HEAD",
        )
    finally:
        gone.cancel()


def _parts(match: re.Match[str] | None) -> tuple[str, str | None, str]:
    """The cluster, the pass in the path if there is one, and the path within the UI."""
    if match is None or paths.climbs(match.group(3) or ""):
        raise ResourceDoesNotExist("The Spark UI of a cluster is at /spark-ui/CLUSTER-ID/.")
    cluster_id, given, path = match.groups()
    return cluster_id, given, path or ""


def _prefix(cluster_id: str, given: str | None) -> str:
    return f"/spark-ui/{cluster_id}" + (f"/~{given}" if given else "")


def _target(upstream: Upstream, asked: _Asked, scope: Scope) -> tuple[URL, dict[str, str]]:
    """The URL of a page at the cluster, and the headers for it."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"] if name in _PASSED_ON}
    headers |= {
        "Authorization": f"Bearer {upstream.bearer}",
        "X-Forwarded-Context": asked.prefix,
        "Accept-Encoding": "identity",
    }
    return URL(upstream.url + with_query(asked.path, scope), encoded=True), headers


def _silent(cluster_id: str) -> TemporarilyUnavailable:
    return TemporarilyUnavailable(f"The Spark UI of cluster {cluster_id} does not answer. Try again.")
