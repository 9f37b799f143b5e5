"""The web proxy: leads to web servers in clusters. What kinds there are, and what each needs, its sources declare.

Programs send their token as a bearer. Browsers that are logged in get a link that contains a pass (`BASE/~PASS/...`), which opens
one web server: see `credentials/uilinks.py`. Requests and answers are streamed, and websockets carried; what takes long ends soon
after the permission is withdrawn.
"""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import structlog
from multidict import CIMultiDict
from starlette.types import Receive, Scope, Send
from yarl import URL

from brickyard.api.edge.authentication import Authenticator, address_of
from brickyard.api.edge.streaming import until_gone
from brickyard.api.edge.websockets import refusing
from brickyard.domain.caller import Caller
from brickyard.domain.errors import ApiError, PermissionDenied, ResourceDoesNotExist, TemporarilyUnavailable, Unauthenticated
from brickyard.domain.notes import Note, unnoted
from brickyard.features.credentials.uilinks import UiLinks
from brickyard.gateway import paths
from brickyard.gateway.answers import BrokeOff, Headers, allow, opens_page, pass_on, redirect, refuse, reply_with, with_query
from brickyard.gateway.connections import Connections
from brickyard.gateway.noting import OncePerHour
from brickyard.gateway.websockets import Client, Target, Unreachable, Websockets

if TYPE_CHECKING:
    import aiohttp

CHECK_S = 3.0  # between two looks at whether the caller may still have an answer that goes on
STUCK_S = 60.0  # how long an answer goes on while a program takes nothing of the request
_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")  # which aiohttp would add

log = structlog.get_logger(__name__)


class Address(NamedTuple):
    """What a request asks for. `base`: the path of a cluster's web server here. `given`: the pass in the request's path, or "".
    `path`: the path within that web server, "" for the base itself. `port`: 0 for the Spark UI."""

    base: str
    cluster_id: str
    given: str
    path: str
    port: int = 0

    @property
    def prefix(self) -> str:
        """What all addresses of the web server begin with, for this caller."""
        return f"{self.base}/~{self.given}" if self.given else self.base

    @property
    def pass_scope(self) -> str:
        """What a pass is valid for."""
        return f"{self.cluster_id}/ports/{self.port}" if self.port else self.cluster_id

    @property
    def objects(self) -> dict[str, str]:
        """For the audit log."""
        return {"cluster_id": self.cluster_id} | ({"port": str(self.port)} if self.port else {})


class Upstream(Protocol):
    """A web server of a cluster: its base URL and, if it is in a separate network, the Unix socket that leads to it."""

    @property
    def url(self) -> str: ...
    @property
    def way(self) -> str: ...


class Answer(NamedTuple):
    """What is passed on of an answer: its headers, and what changes its body."""

    headers: Headers
    rewrite: Callable[[bytes], bytes] | None = None


U = TypeVar("U", bound=Upstream)


def below(base: str) -> re.Pattern[str]:
    """The paths below a base, which has the groups `cluster_id` and, for ports, `port`."""
    return re.compile(rf"(?P<base>{base})(?:/~(?P<given>[A-Za-z0-9_-]{{1,600}}))?(?P<inside>/[!-\[\]-~]*)?")


class MethodNotAllowed(ApiError):
    error_code = "INVALID_PARAMETER_VALUE"
    http_status = 405


class WebSource(ABC, Generic[U]):
    """A kind of web server in clusters: where it is, who may have it, and what is changed on the way."""

    prefix: ClassVar[str]  # of all paths
    pattern: ClassVar[re.Pattern[str]]  # of all paths, made by `below`
    usage: ClassVar[str]  # the error for other paths
    operation: ClassVar[str]  # in the audit log, when somebody opens it
    missing: ClassVar[str]  # what to say to who sends no token
    read_s: ClassVar[float]  # how long it may send nothing
    read_only: ClassVar[bool]
    allowed: ClassVar[tuple[tuple[bytes, bytes], ...]]  # to scripts of its pages, which have a pass

    def address(self, path: str) -> Address:
        """What a path means. Raises ResourceDoesNotExist."""
        match = self.pattern.fullmatch(path)
        if match is None or paths.climbs(match["inside"] or ""):
            raise ResourceDoesNotExist(self.usage)
        port = int(match.groupdict().get("port") or 0)
        return Address(match["base"], match["cluster_id"], match["given"] or "", match["inside"] or "", port)

    @abstractmethod
    async def find(self, caller: Caller, address: Address) -> U:
        """The web server that the caller asks for. Raises ApiError."""

    @abstractmethod
    async def check(self, caller: Caller, address: Address) -> None:
        """Raises ApiError if the caller may not, or no longer, have it."""

    @abstractmethod
    def forget(self, address: Address) -> TemporarilyUnavailable:
        """Drop what is known of where it is, because nothing answers there. Return the error for the caller."""

    async def own_text(self, caller: Caller, address: Address) -> bytes | None:
        """A text that is made here; None if the web server has the page. Raises ApiError."""
        return None

    @abstractmethod
    def elsewhere(self, upstream: U, address: Address, scope: Scope) -> str:
        """The path, with its query, to which a request is redirected; "" if it is not."""

    @abstractmethod
    def request(self, upstream: U, address: Address, scope: Scope) -> tuple[str, list[tuple[str, str]]]:
        """The path and the headers for the web server."""

    @abstractmethod
    def answer(self, upstream: U, address: Address, response: aiohttp.ClientResponse, *, https: bool) -> Answer:
        """What of an answer is passed on."""


class WebProxy(Generic[U]):
    """The ASGI application for one kind of web server, mounted at the prefix of its source."""

    def __init__(self, source: WebSource[U], *, authenticator: Authenticator, links: UiLinks, note: Note = unnoted) -> None:
        self.prefix = source.prefix
        self.source = source
        self._authenticator = authenticator
        self._links = links
        self._noted = OncePerHour(note)
        self._websockets = Websockets()
        self._connections = Connections(read_s=source.read_s)

    async def close(self) -> None:
        """Closes all connections."""
        await self._connections.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        serve, answer = self._serve, send
        if scope["type"] == "websocket":
            await receive()  # the client asks; it gets a websocket or an HTTP answer
            serve, answer = self._carry, refusing(send)
        address: Address | None = None
        try:
            address = self.source.address(paths.raw(scope))
            await serve(address, scope, receive, send)
        except ApiError as error:
            await refuse(scope, answer, error, page=address.base + (address.path or "/") if address else "")
        except BrokeOff:
            log.info("answer_broke_off", **address.objects if address else {})
            raise
        except Exception:
            log.exception("proxy_failed", **address.objects if address else {})
            await refuse(scope, answer, ApiError("The server failed to answer this request. Its log says why."), page="")

    async def _serve(self, address: Address, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "OPTIONS" and address.given and (self.source.read_only or _is_preflight(scope)):
            await allow(send, self.source.allowed)
            return
        if self.source.read_only and scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed("These pages are read-only: use GET.")
        if not address.given and opens_page(scope):
            await self._lead_in(address, scope, send)
            return
        caller = await self._caller(scope, address)
        if (text := await self.source.own_text(caller, address)) is not None:
            await reply_with(send, 200, text, b"text/plain; charset=utf-8")
            return
        upstream = await self.source.find(caller, address)
        self._noted(self.source.operation, caller, address=address_of(scope), **address.objects)
        if target := self.source.elsewhere(upstream, address, scope):
            await redirect(send, address.prefix + target)
            return
        await self._forward(upstream, address, scope, _Body(receive), send)

    async def _carry(self, address: Address, scope: Scope, receive: Receive, send: Send) -> None:
        """Carries a websocket, for as long as its caller may have it."""
        caller = await self._caller(scope, address)
        upstream = await self.source.find(caller, address)
        path, headers = self.source.request(upstream, address, scope)
        target = Target(URL(upstream.url + path, encoded=True), dict(headers), upstream.way, scope["subprotocols"])
        try:
            await self._websockets.carry(target, Client(caller, receive, send, partial(self._check, scope, address)))
        except Unreachable as error:
            raise self.source.forget(address) from error

    async def _caller(self, scope: Scope, address: Address) -> Caller:
        await self._authenticator.admit(self._authenticator.source(scope))
        if address.given:
            return await self._authenticator.of_link(address.given, address.pass_scope, address=address_of(scope))
        return await self._authenticator.of_headers(scope["headers"], address=address_of(scope), missing=self.source.missing)

    async def _check(self, scope: Scope, address: Address) -> None:
        await self.source.check(await self._caller(scope, address), address)

    async def _lead_in(self, address: Address, scope: Scope, send: Send) -> None:
        """Leads a browser that is logged in to a link. The cluster's pages never get the session's cookie: it is not
        passed on, and the link opens only them. Using the link checks whether the user may attach."""
        await self._authenticator.admit(self._authenticator.source(scope))
        caller = await self._authenticator.of_navigation(scope)
        link = address._replace(given=self._links.make(caller, address.pass_scope)[0])
        await redirect(send, with_query(link.prefix + (address.path or "/"), scope), ())

    async def _forward(self, upstream: U, address: Address, scope: Scope, body: _Body, send: Send) -> None:
        import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

        path, headers = self.source.request(upstream, address, scope)

        async def exchange() -> None:
            data = body.pieces() if not self.source.read_only and _has_body(scope) else None
            if data is None:
                body.over.set()
            with self._connections.to(upstream.way, f"{address.base} {upstream.url}") as session:
                asking = session.request(
                    scope["method"],
                    URL(upstream.url + path, encoded=True),
                    headers=CIMultiDict(headers),
                    data=data,
                    allow_redirects=False,
                    skip_auto_headers=_OWN_HEADERS,
                )
                async with asking as response:
                    answer = self.source.answer(upstream, address, response, https=scope["scheme"] == "https")
                    await pass_on(
                        response,
                        answer.headers,
                        send,
                        ended=body.useless,
                        rewrite=answer.rewrite,
                        without_body=scope["method"] == "HEAD",
                    )

        try:
            await _while_allowed(exchange(), partial(self._check, scope, address), body)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:  # ValueError: an answer that is no HTTP
            raise self.source.forget(address) from error


class _Denied(Exception):
    """The caller may no longer have the answer."""


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


def _is_preflight(scope: Scope) -> bool:
    return any(name == b"access-control-request-method" for name, _ in scope["headers"])


def _has_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
