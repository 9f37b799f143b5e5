"""Links that log a browser in, once: the command line makes them for whoever may read the workspace's token."""

from __future__ import annotations

import msgspec

from brickyard.api.browser.html import redirect
from brickyard.api.browser.login import FromBrowser, browser_operation
from brickyard.api.context import ApiContext
from brickyard.api.edge import cookies
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.registry import Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.errors import Unauthenticated
from brickyard.domain.spec import Wire
from brickyard.plan.browsers import way_back
from brickyard.services.caller import Caller
from brickyard.services.loginlinks import PATH, link_path


class AskLink(msgspec.Struct, frozen=True, kw_only=True):
    base_url: str = ""


class LoginLink(Wire, frozen=True, kw_only=True):
    """`expiry_time` in epoch ms."""

    url: str
    expiry_time: int


class FollowLink(FromBrowser, frozen=True, kw_only=True):
    code: str = ""
    next: str = ""


async def _make(ctx: ApiContext, caller: Caller, request: AskLink) -> LoginLink:
    code, expiry_ms = await ctx.services.login_links.make(caller)
    return LoginLink(url=request.base_url + link_path(code), expiry_time=expiry_ms)


async def _follow(ctx: ApiContext, caller: Caller, request: FollowLink) -> Reply:
    request.check_origin()
    cookie = await ctx.services.login_links.follow(request.code, instead_of=cookies.read(request.cookie, https=request.https))
    if cookie is None:
        raise Unauthenticated(
            "This link was used before, or has expired: it works once. `brickyard ui` opens a new one, or log in with a token."
        )
    return redirect(way_back(request.next), ("set-cookie", cookies.written(cookie, https=request.https)))


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="sessions.make_link",
        method="POST",
        paths=("/api/2.1/login-links",),
        handler=_make,
        request=AskLink,
        response=LoginLink,
        summary="Make a link that logs a browser in as the caller, once and soon",
        needs=(Need(Permission.CAN_USE, ObjectKind.TOKENS),),
        with_base_url=True,
    ),
    browser_operation(
        "sessions.follow_link", "GET", PATH, _follow, "Begin a browser session by a link", request=FollowLink, logs_in=True
    ),
)
