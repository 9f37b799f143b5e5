"""Links that log a browser in, once: the command line makes them for whoever may read the workspace's token."""

from __future__ import annotations

import msgspec

from brickyard.api.browser.html import redirect
from brickyard.api.browser.login import PAGE_FACTS, FromBrowser
from brickyard.api.edge import cookies
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import Unauthenticated
from brickyard.domain.spec import Wire
from brickyard.features.credentials.loginlinks import PATH, LoginLinks, link_path
from brickyard.plan.browsers import way_back


class AskLink(msgspec.Struct, frozen=True, kw_only=True):
    base_url: str = ""


class LoginLink(Wire, frozen=True, kw_only=True):
    """`expiry_time` in epoch ms."""

    url: str
    expiry_time: int


class FollowLink(FromBrowser, frozen=True, kw_only=True):
    code: str = ""
    next: str = ""


async def _make(links: LoginLinks, caller: Caller, request: AskLink) -> LoginLink:
    code, expiry_ms = await links.make(caller)
    return LoginLink(url=request.base_url + link_path(code), expiry_time=expiry_ms)


async def _follow(links: LoginLinks, caller: Caller, request: FollowLink) -> Reply:
    request.check_origin()
    cookie = await links.follow(request.code, instead_of=cookies.read(request.cookie, https=request.https))
    if cookie is None:
        raise Unauthenticated(
            "This link was used before, or has expired: it works once. `brickyard ui` opens a new one, or log in with a token."
        )
    return redirect(way_back(request.next), ("set-cookie", cookies.written(cookie, https=request.https)))


_LINKS = Group("sessions", lambda ctx: ctx.services.login_links, "/api/2.1/login-links")
_FOLLOWED = Group("sessions", lambda ctx: ctx.services.login_links, PATH, **PAGE_FACTS)
OPERATIONS: tuple[Operation, ...] = (
    _LINKS(
        "POST",
        _make,
        "Make a link that logs a browser in as the caller, once and soon",
        name="make_link",
        needs=Need(Permission.CAN_USE, ObjectKind.TOKENS),
        with_base_url=True,
    ),
    _FOLLOWED("GET", _follow, "Begin a browser session by a link", name="follow_link", logs_in=True),
)
