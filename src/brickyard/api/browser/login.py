"""Logging in and out with a browser."""

from __future__ import annotations

import hmac
from html import escape

from brickyard.api.browser.html import PAGES, WrongForm, hidden, login_page, page, redirect
from brickyard.api.context import ApiContext
from brickyard.api.edge import cookies
from brickyard.api.edge.authentication import FOREIGN
from brickyard.api.edge.dialects import PLAIN, Reply
from brickyard.api.edge.group import Facts, Group
from brickyard.api.edge.registry import BODY_LIMIT, Auth, Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import PermissionDenied, Unauthenticated
from brickyard.domain.spec import Wire
from brickyard.features.credentials.sessions import Session
from brickyard.plan.browsers import own_request, way_back

MAX_FORM = 64 * 1024  # bytes
HEADERS = {"cookie": "cookie", "origin": "origin", "sec-fetch-site": "fetch_site"}


class FromBrowser(Wire, frozen=True, kw_only=True):
    """What browsers send with a request, from its headers."""

    base_url: str = ""
    cookie: str = ""
    origin: str = ""
    fetch_site: str = ""

    @property
    def https(self) -> bool:
        return self.base_url.startswith("https:")

    def check_origin(self) -> None:
        """Raises PermissionDenied if another site's page asks."""
        if not own_request(own_origin=self.base_url, origin=self.origin, fetch_site=self.fetch_site):
            raise PermissionDenied(FOREIGN)


class LoginPage(FromBrowser, frozen=True, kw_only=True):
    """`next` is the path to go to afterwards."""

    next: str = ""


class LogIn(LoginPage, frozen=True, kw_only=True):
    token: str = ""


class LogOut(FromBrowser, frozen=True, kw_only=True):
    csrf_token: str = ""


class SessionInfo(Wire, frozen=True, kw_only=True):
    """Send `csrf_token` as the header X-CSRF-Token with every call that changes something. `results_download`: whether the page
    offers to save results of commands. `external_url`: the origin by which clients reach the workspace; empty: the one in use."""

    user_name: str
    csrf_token: str
    results_download: bool
    workspace_name: str = ""
    external_url: str = ""


async def session_of(ctx: ApiContext, request: FromBrowser) -> Session | None:
    """The browser's session, if it is logged in."""
    return await ctx.services.sessions.find(cookies.read(request.cookie, https=request.https))


def check_csrf(session: Session, given: str) -> None:
    """Raises PermissionDenied unless the form comes from a page that was made for this session."""
    if not hmac.compare_digest(given.encode(), session.csrf_token.encode()):
        raise PermissionDenied("The form has no valid csrf_token: it was not made for this session. Open the page again.")


async def _page(ctx: ApiContext, caller: Caller, request: LoginPage) -> Reply:
    session = await session_of(ctx, request)
    if session is None:
        ended = "Your session has ended. Log in again." if cookies.read(request.cookie, https=request.https) else ""
        return login_page(way_back(request.next), provider=_provider(ctx), message=ended)
    if request.next:
        return redirect(way_back(request.next))
    return page(
        "You are logged in",
        f"<p>You are <b>{escape(session.caller.user_name)}</b>. This browser opens the Spark UI of clusters that you may "
        "attach to, and may call the API.</p>"
        f'<form method="post" action="/logout">{hidden({"csrf_token": session.csrf_token})}<button>Log out</button></form>',
    )


async def _log_in(ctx: ApiContext, caller: Caller, request: LogIn) -> Reply:
    request.check_origin()
    cookie = await ctx.services.sessions.begin(
        request.token.strip(), instead_of=cookies.read(request.cookie, https=request.https)
    )
    if cookie is None:
        said = "This token is not known to the workspace, has expired or was revoked."
        raise WrongForm(said, next_path=way_back(request.next), provider=_provider(ctx))
    return redirect(way_back(request.next), ("set-cookie", cookies.written(cookie, https=request.https)))


def _provider(ctx: ApiContext) -> str:
    """What people know the identity provider by; "" if there is none."""
    return ctx.services.sign_in.provider.label if ctx.services.sign_in is not None else ""


async def _log_out(ctx: ApiContext, caller: Caller, request: LogOut) -> Reply:
    request.check_origin()
    if (session := await session_of(ctx, request)) is not None:
        check_csrf(session, request.csrf_token)
        log_in = await ctx.services.sessions.end(session)
        if ctx.services.sign_in is not None and (
            place := await ctx.services.sign_in.log_out_url(log_in, back=f"{ctx.external_url or request.base_url}/login")
        ):
            return _leave(place, ctx.services.sign_in.provider.label, request)
    return redirect("/login", ("set-cookie", cookies.cleared(https=request.https)))


def _leave(place: str, provider: str, request: FromBrowser) -> Reply:
    """Leads to the provider's log-out. A page, not a redirect: browsers let no form lead to another site (form-action)."""
    return page(
        "You are logged out here",
        f'<p><a class="button main" href="{escape(place)}">Log out at {escape(provider)} as well</a></p>',
        more=(("set-cookie", cookies.cleared(https=request.https)), ("refresh", f"0; url={place}")),
    )


async def _session(ctx: ApiContext, caller: Caller, request: FromBrowser) -> SessionInfo:
    request.check_origin()
    session = await session_of(ctx, request)
    if session is None:
        raise Unauthenticated("There is no session, or it has expired. Log in at /login.")
    return SessionInfo(
        user_name=session.caller.user_name,
        csrf_token=session.csrf_token,
        results_download=await ctx.services.workspace_conf.has_results_download(),
        workspace_name=ctx.workspace_name,
        external_url=ctx.external_url,
    )


# Browsers call pages, and their forms, with their cookies, and see errors as pages.
PAGE_FACTS: Facts = {
    "needs": (),
    "auth": Auth.NONE,
    "dialect": PAGES,
    "documented": False,
    "body_limit": MAX_FORM,
    "with_base_url": True,
    "compares_base_url": True,
    "from_headers": HEADERS,
}
_SESSIONS = Group("sessions", lambda ctx: ctx, **PAGE_FACTS)
OPERATIONS: tuple[Operation, ...] = (
    _SESSIONS("GET /login", _page, "The log-in page", name="page"),
    _SESSIONS("POST /login", _log_in, "Begin a browser session", name="log_in", urlencoded=True, logs_in=True),
    _SESSIONS("POST /logout", _log_out, "End a browser session", name="log_out", urlencoded=True),
    _SESSIONS(
        "GET /login/session",
        _session,
        "The browser's session, and the token that its calls need",
        name="get",
        dialect=PLAIN,
        body_limit=BODY_LIMIT,
    ),
)
