"""The application of `brickyard ui --workspace`: the built page, log-in by a link, and the workspace's API behind it."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from html import escape
from urllib.parse import parse_qs

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from brickyard.api.browser import webpage
from brickyard.api.browser.html import PAGES, page, redirect
from brickyard.api.edge import cookies
from brickyard.api.edge.authentication import FOREIGN, Authenticator, base_url
from brickyard.api.edge.bodies import Disconnected, read
from brickyard.api.edge.dialects import PLAIN, Reply
from brickyard.api.edge.registry import BODY_LIMIT
from brickyard.api.edge.routes import Routes
from brickyard.api.edge.streaming import until_gone
from brickyard.api.edge.websockets import refusing
from brickyard.api.webpage import WebPage
from brickyard.domain.caller import Caller
from brickyard.domain.errors import ApiError, EndpointNotFound, PermissionDenied, Unauthenticated
from brickyard.features.credentials.loginlinks import PATH as LINK
from brickyard.features.credentials.sessions import Session
from brickyard.gateway.answers import BrokeOff, pass_on
from brickyard.plan.browsers import here_by_name, own_request, way_back
from brickyard.remote import passing
from brickyard.remote.sessions import LinkedSessions
from brickyard.remote.workspace import About, RemoteWorkspace

AGAIN = "Press Enter where `brickyard ui` runs for a new link, or start it again."
_MAX_FORM = 64 * 1024  # bytes

log = structlog.get_logger(__name__)


class RemoteSession(msgspec.Struct, frozen=True, kw_only=True):
    """The browser's session, as our server has it, and the workspace behind the page: its URL, and what it lacks
    (`lacking.ADDITIONS`)."""

    user_name: str
    csrf_token: str
    workspace: str
    lacks: tuple[str, ...]


class _Nobody:
    """Tokens and links: nothing but a session counts here."""

    def known(self, bearer: str) -> Caller | None:
        return None

    async def authenticate(self, bearer: str) -> Caller | None:
        return None

    async def caller(self, given: str, cluster_id: str) -> Caller | None:
        return None


class RemotePage:
    """The ASGI application. `cookie` is the name of its sessions' cookie: browsers send cookies to all ports of a host."""

    def __init__(
        self, workspace: RemoteWorkspace, about: About, sessions: LinkedSessions, *, cookie: str, web_page: WebPage | None = None
    ) -> None:
        self._workspace = workspace
        self._about = about
        self._sessions = sessions
        self._cookie = cookie
        self._web_page = web_page or WebPage()
        self._exchanges: set[asyncio.Task[None]] = set()
        self._routes = Routes(webpage.OPERATIONS)
        self._authenticator = Authenticator(tokens=_Nobody(), links=_Nobody(), sessions=sessions, cookie=cookie)
        self._pages: dict[tuple[str, str], Callable[[Scope, Receive], Awaitable[Reply]]] = {
            ("GET", "/login"): self._log_in,
            ("GET", "/login/session"): self._session,
            ("GET", LINK): self._follow,
            ("POST", "/logout"): self._log_out,
        }

    def close(self) -> None:
        """Breaks off the calls in progress: streams never end by themselves."""
        for each in self._exchanges:
            each.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await _send(refusing(send), PLAIN.reply(EndpointNotFound("There is no websocket here.")), head=False)
            return
        is_call = scope["path"].startswith(passing.PREFIXES)
        dialect = PLAIN if is_call or scope["path"] == "/login/session" else PAGES
        head = scope["method"] == "HEAD"
        try:
            _check_host(scope)
            if is_call:
                await self._call(scope, receive, send)
            else:
                await _send(send, await self._own(scope, receive), head=head)
        except ApiError as error:
            await _send(send, dialect.reply(error), head=head)
        except Disconnected:
            return
        except BrokeOff:
            raise  # the answer must not look complete
        except Exception:
            log.exception("remote_page_failed", path=scope["path"])
            await _send(send, dialect.reply(ApiError("This failed. What `brickyard ui` prints says why.")), head=head)

    async def _own(self, scope: Scope, receive: Receive) -> Reply:
        """A page or a file of our own."""
        if (handler := self._pages.get((scope["method"], scope["path"]))) is not None:
            return await handler(scope, receive)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        match = self._routes.match(method, scope["path"], scope.get("raw_path") or scope["path"].encode())
        if match is None:
            raise EndpointNotFound(f"There is no page {scope['path'][:200]} here.")
        if match[0].name == webpage.ASSET:
            return await webpage.file(self._web_page, (match[1] or {})["file"], _header(scope, b"accept-encoding"))
        return webpage.led(match[0].name, match[1] or {}) or await webpage.document(self._web_page)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A call of the API, for whoever has a session."""
        await self._authenticator.of_session(scope)
        raw_path = scope.get("raw_path") or scope["path"].encode()
        if scope["method"] not in passing.METHODS or not passing.passes(raw_path):
            raise EndpointNotFound(f"No API found for '{scope['method']} {scope['path'][:500]}'")
        body = await read(scope, receive, BODY_LIMIT)
        passing.check_conditions(scope["path"], body, self._about.lacks)
        exchange = asyncio.create_task(self._exchange(scope, raw_path.decode("latin-1"), body, send))
        gone = asyncio.create_task(until_gone(receive))
        self._exchanges.add(exchange)
        try:
            await asyncio.wait({exchange, gone}, return_when=asyncio.FIRST_COMPLETED)
            if exchange.cancelled():
                raise BrokeOff
            if exchange.done():
                exchange.result()
        finally:
            self._exchanges.discard(exchange)
            for task in (exchange, gone):
                task.cancel()
            await asyncio.gather(exchange, gone, return_exceptions=True)

    async def _exchange(self, scope: Scope, raw_path: str, body: bytes, send: Send) -> None:
        query = scope["query_string"].decode("latin-1")
        async with self._workspace.call(scope["method"], raw_path, query, scope["headers"], body) as response:
            headers = passing.response_headers((bytes(name), bytes(value)) for name, value in response.raw_headers)
            await pass_on(response, headers, send, ended=lambda: False, without_body=scope["method"] == "HEAD")

    async def _log_in(self, scope: Scope, receive: Receive) -> Reply:
        return page(
            "Open the link",
            f"<p>This page stands in front of <b>{escape(self._workspace.url)}</b>. It is opened by the link that "
            f"<code>brickyard ui</code> prints, which works once.</p><p>{escape(AGAIN)}</p>",
        )

    async def _session(self, scope: Scope, receive: Receive) -> Reply:
        session = await self._of(scope)
        if session is None:
            raise Unauthenticated(f"There is no session, or it has expired. {AGAIN}")
        found = RemoteSession(
            user_name=self._about.user_name,
            csrf_token=session.csrf_token,
            workspace=self._workspace.url,
            lacks=self._about.lacks,
        )
        return Reply(body=msgspec.json.encode(found), headers=(("cache-control", "no-store"),))

    async def _follow(self, scope: Scope, receive: Receive) -> Reply:
        _check_origin(scope)
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        cookie = self._sessions.follow(asked.get("code", [""])[0])
        if cookie is None:
            raise Unauthenticated(f"This link was used before, or has expired: it works once. {AGAIN}")
        written = cookies.written(cookie, https=False, name=self._cookie)
        return redirect(way_back(asked.get("next", ["/"])[0]), ("set-cookie", written))

    async def _log_out(self, scope: Scope, receive: Receive) -> Reply:
        session = await self._of(scope)
        if session is not None:
            form = parse_qs((await read(scope, receive, _MAX_FORM)).decode("latin-1"))
            if not hmac.compare_digest(form.get("csrf_token", [""])[0].encode(), session.csrf_token.encode()):
                raise PermissionDenied("The form has no valid csrf_token: it was not made for this session. Open the page again.")
            self._sessions.end(cookies.read(_header(scope, b"cookie"), https=False, name=self._cookie))
        return page(
            "You are logged out here",
            f"<p>The token of the workspace stays as it is.</p><p>{escape(AGAIN)}</p>",
            more=(("set-cookie", cookies.cleared(https=False, name=self._cookie)),),
        )

    async def _of(self, scope: Scope) -> Session | None:
        """The session of one of our own pages."""
        _check_origin(scope)
        return await self._sessions.find(cookies.read(_header(scope, b"cookie"), https=False, name=self._cookie))


def _check_host(scope: Scope) -> None:
    """Raises PermissionDenied if this machine is called by another name."""
    if not here_by_name(_header(scope, b"host")):
        raise PermissionDenied("This page is for browsers of this machine: open it at http://127.0.0.1 or http://localhost.")


def _check_origin(scope: Scope) -> None:
    """Raises PermissionDenied if another site's page asks."""
    origin, fetch_site = _header(scope, b"origin"), _header(scope, b"sec-fetch-site")
    if not own_request(own_origin=base_url(scope), origin=origin, fetch_site=fetch_site):
        raise PermissionDenied(FOREIGN)


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


async def _send(send: Send, reply: Reply, *, head: bool) -> None:
    headers = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers]
    headers += [(b"content-type", reply.content_type.encode()), (b"content-length", b"%d" % len(reply.body))]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else reply.body})
