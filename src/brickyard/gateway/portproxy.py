"""`/ports/{cluster_id}/{internal_port}/...`: web servers on drivers, for http port mappings.

Authentication is that of the Spark UI: programs send their token as a bearer, and browsers that are logged in get a link that
contains a pass (`/ports/{cluster_id}/{internal_port}/~PASS/...`), valid for this mapping alone. Requests and answers are
streamed; what takes long ends soon after the permission is withdrawn.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, Protocol

import structlog
from multidict import CIMultiDict
from starlette.types import Receive, Scope, Send
from yarl import URL

from brickyard.api.edge.authentication import Authenticator, address_of
from brickyard.api.edge.streaming import until_gone
from brickyard.api.edge.websockets import refusing
from brickyard.domain.audit import PORT_OPENED
from brickyard.domain.errors import ApiError, PermissionDenied, ResourceDoesNotExist, TemporarilyUnavailable, Unauthenticated
from brickyard.gateway import paths, portheaders
from brickyard.gateway.answers import BrokeOff, allow, opens_page, pass_on, redirect, refuse, with_query
from brickyard.gateway.connections import Connections
from brickyard.gateway.noting import OncePerHour
from brickyard.gateway.portheaders import Place
from brickyard.gateway.websockets import Client, Target, Unreachable, Websockets
from brickyard.services.audit import Note, unnoted
from brickyard.services.caller import Caller
from brickyard.services.uilinks import UiLinks

PREFIX = "/ports/"
READ_S = 600.0  # how long a program may send nothing
CHECK_S = 3.0  # between two looks at whether the caller may still have an answer that goes on
STUCK_S = 60.0  # how long an answer goes on while its program takes nothing of the request
_PATH = re.compile(r"/ports/([A-Za-z0-9-]{1,64})/(\d{1,5})(?:/~([A-Za-z0-9_-]{1,600}))?(/[!-\[\]-~]*)?")

log = structlog.get_logger(__name__)


class PortTarget(NamedTuple):
    """Where a mapping leads: the address of the driver's port and, if it is in a separate network, the Unix socket to it."""

    url: str
    way: str
    strip_prefix: bool


class Sources(Protocol):
    """Finds what mappings lead to. Methods raise ApiError."""

    async def find(self, caller: Caller, cluster_id: str, port: int) -> PortTarget: ...

    async def check(self, caller: Caller, cluster_id: str, port: int) -> None:
        """Raises if the caller may not, or no longer, use the mapping, or it no longer exists."""
        ...

    def forget(self, cluster_id: str, port: int) -> None:
        """Call this when the cached location does not answer."""
        ...


class _Asked(NamedTuple):
    cluster_id: str
    port: int
    given: str
    path: str

    @property
    def base(self) -> str:
        return f"{PREFIX}{self.cluster_id}/{self.port}"

    @property
    def scope_of_pass(self) -> str:
        """What a pass is valid for."""
        return f"{self.cluster_id}/ports/{self.port}"


class _Denied(Exception):
    """The caller may no longer have the answer."""


class PortProxy:
    """The ASGI application mounted at `PREFIX`."""

    def __init__(self, *, authenticator: Authenticator, links: UiLinks, sources: Sources, note: Note = unnoted) -> None:
        self._authenticator = authenticator
        self._links = links
        self._sources = sources
        self._noted = OncePerHour(note)
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
        asked: _Asked | None = None
        try:
            asked = _asked(scope)
            await serve(asked, scope, receive, send)
        except ApiError as error:
            await refuse(scope, answer, error, page=asked.base + asked.path if asked else "")
        except BrokeOff:
            log.info("port_broke_off", cluster_id=asked.cluster_id if asked else "")
            raise
        except Exception:
            log.exception("port_failed", cluster_id=asked.cluster_id if asked else "")
            await refuse(scope, answer, ApiError("The server failed to answer this request. Its log says why."), page="")

    async def _serve(self, asked: _Asked, scope: Scope, receive: Receive, send: Send) -> None:
        preflight = any(name == b"access-control-request-method" for name, _ in scope["headers"])
        if scope["method"] == "OPTIONS" and asked.given and preflight:
            await allow(send, portheaders.ALLOWED)
            return
        if not asked.given and opens_page(scope):
            await self._lead_in(asked, scope, send)
            return
        caller = await self._caller(scope, asked)
        target = await self._sources.find(caller, asked.cluster_id, asked.port)
        place = _place(asked, target)
        self._noted(PORT_OPENED, caller, address=address_of(scope), cluster_id=asked.cluster_id, port=str(asked.port))
        if not asked.path:
            await redirect(send, with_query(f"{place.prefix}/", scope))
            return
        await self._forward(asked, target, scope, _Body(receive), send)

    async def _carry(self, asked: _Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Carries a websocket, for as long as its caller may have it."""
        caller = await self._caller(scope, asked)
        target = await self._sources.find(caller, asked.cluster_id, asked.port)
        url, headers = _request(asked, target, scope)
        try:
            await self._websockets.carry(
                Target(url, dict(headers), target.way, scope["subprotocols"]),
                Client(caller, receive, send, self._check(scope, asked)),
            )
        except Unreachable as error:
            raise self._silent(asked) from error

    async def _caller(self, scope: Scope, asked: _Asked) -> Caller:
        if asked.given:
            return await self._authenticator.of_link(asked.given, asked.scope_of_pass, address=address_of(scope))
        return await self._authenticator.of_headers(
            scope["headers"], address=address_of(scope), missing="A port requires permission to attach to the cluster."
        )

    def _check(self, scope: Scope, asked: _Asked) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            await self._sources.check(await self._caller(scope, asked), asked.cluster_id, asked.port)

        return check

    async def _lead_in(self, asked: _Asked, scope: Scope, send: Send) -> None:
        """Leads a browser that is logged in to a link. The program never gets the session's cookie."""
        caller = await self._authenticator.of_navigation(scope)
        given = self._links.make(caller, asked.scope_of_pass)[0]
        await redirect(send, with_query(f"{asked.base}/~{given}{asked.path or '/'}", scope), ())

    async def _forward(self, asked: _Asked, target: PortTarget, scope: Scope, body: _Body, send: Send) -> None:
        import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

        url, headers = _request(asked, target, scope)
        place = _place(asked, target)

        async def exchange() -> None:
            session = self._connections.to(target.way, f"{asked.base} {target.url}")
            data = body.pieces() if _has_body(scope) else None
            if data is None:
                body.over.set()
            asking = session.request(
                scope["method"], url, headers=headers, data=data, allow_redirects=False, skip_auto_headers=_OWN_HEADERS
            )
            async with asking as response:
                plain = response.headers.get("content-encoding", "identity").lower() == "identity"
                is_page = response.content_type == "text/html" and plain
                given = [(bytes(name), bytes(value)) for name, value in response.raw_headers]
                await pass_on(
                    response,
                    portheaders.response_headers(given, place, https=scope["scheme"] == "https", rewritten=is_page),
                    send,
                    ended=body.useless,
                    rewrite=partial(portheaders.page, place=place) if is_page else None,
                    without_body=scope["method"] == "HEAD",
                )

        try:
            await _while_allowed(exchange(), self._check(scope, asked), body)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:  # ValueError: an answer that is no HTTP
            raise self._silent(asked) from error

    def _silent(self, asked: _Asked) -> TemporarilyUnavailable:
        self._sources.forget(asked.cluster_id, asked.port)
        return TemporarilyUnavailable(
            f"Nothing answers in HTTP on port {asked.port} of the driver of cluster {asked.cluster_id}. Is the program running?"
        )


_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class _Body:
    """A request's body, read as the program takes it; and whether the client is still there."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._moved = time.monotonic()
        self.over = asyncio.Event()  # the whole body has been read
        self._gone = False

    async def pieces(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone = True
                raise ConnectionResetError("the client has gone")
            self._moved = time.monotonic()
            more = message.get("more_body", False)
            if piece := message.get("body", b""):
                yield piece
        self.over.set()

    async def until_gone(self) -> None:
        """Returns when the client has disconnected."""
        await self.over.wait()
        await until_gone(self._receive)
        self._gone = True

    def useless(self) -> bool:
        """Whether there is no sense in going on: the client has gone, or the program takes nothing of the request, so that nobody
        can tell whether it has."""
        return self._gone or (not self.over.is_set() and time.monotonic() > self._moved + STUCK_S)


async def _while_allowed(work: Coroutine[Any, Any, None], check: Callable[[], Awaitable[None]], body: _Body) -> None:
    """Does the work until it is done, the client has gone, or `check` denies it."""
    doing, gone, watching = (asyncio.create_task(each) for each in (work, body.until_gone(), _denied(check)))
    tasks = (doing, gone, watching)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(ends[0], asyncio.CancelledError):
        if isinstance(ends[2], _Denied):
            raise BrokeOff from ends[2]
        return
    doing.result()


async def _denied(check: Callable[[], Awaitable[None]]) -> None:
    """Raises _Denied when the caller may no longer have the answer. A database that is away ends nothing."""
    while True:
        await asyncio.sleep(CHECK_S)
        try:
            await check()
        except (Unauthenticated, PermissionDenied, ResourceDoesNotExist) as error:
            raise _Denied(error.message) from error
        except ApiError:
            continue


def _asked(scope: Scope) -> _Asked:
    match = _PATH.fullmatch(paths.raw(scope))
    if match is None or paths.climbs(match.group(4) or ""):
        raise ResourceDoesNotExist("The http port mappings of a cluster are at /ports/CLUSTER-ID/PORT/.")
    cluster_id, port, given, path = match.groups()
    return _Asked(cluster_id, int(port), given or "", path or "")


def _place(asked: _Asked, target: PortTarget) -> Place:
    return Place(asked.base, asked.given, asked.port, target.strip_prefix)


def _request(asked: _Asked, target: PortTarget, scope: Scope) -> tuple[URL, CIMultiDict[str]]:
    place = _place(asked, target)
    url = URL(target.url + with_query(place.inside(asked.path or "/"), scope), encoded=True)
    headers = portheaders.request_headers(
        scope["headers"], place, client=address_of(scope), scheme=scope["scheme"].replace("ws", "http")
    )
    return url, CIMultiDict(headers)


def _has_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
