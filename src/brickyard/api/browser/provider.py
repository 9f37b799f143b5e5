"""The way to the external identity provider, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from brickyard.api.browser.html import redirect
from brickyard.api.browser.login import MAX_FORM, PAGE_FACTS, FromBrowser, LoginPage
from brickyard.api.context import ApiContext
from brickyard.api.edge import cookies
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Auth, Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import EndpointNotFound, InvalidParameterValue
from brickyard.domain.signin import ATTEMPT_MS, ProviderTrouble, SignInInvalid, cookie_key
from brickyard.domain.spec import Wire
from brickyard.plan.browsers import way_back

if TYPE_CHECKING:
    from brickyard.features.credentials.oidc.service import SignInService

BACK = "/login/callback"


class FromProvider(FromBrowser, frozen=True, kw_only=True):
    """What the provider sends along (RFC 6749, 4.1.2; RFC 9207)."""

    state: str = ""
    code: str = ""
    iss: str = ""
    error: str = ""
    error_description: str = ""


class GoToProvider(LoginPage, frozen=True, kw_only=True):
    """`moved`: the browser has been led to the workspace's `external_url`."""

    moved: bool = False


async def _go(ctx: ApiContext, caller: Caller, request: GoToProvider) -> Reply:
    request.check_origin()
    here = ctx.external_url or request.base_url
    if here != request.base_url and not request.moved:  # the provider leads back to `here`, where the cookie must be
        return redirect(f"{here}/login/provider?{urlencode({'next': way_back(request.next), 'moved': 'true'})}")
    begun = await _service(ctx).begin(base_url=here, callback=BACK, next_path=way_back(request.next))
    cookie = cookies.written(begun.cookie, https=request.https, name=_name(begun.key), max_age_s=ATTEMPT_MS // 1000)
    return redirect(begun.url, ("set-cookie", cookie))


async def _back(ctx: ApiContext, caller: Caller, request: FromProvider) -> Reply:
    name = _name(cookie_key(request.state))
    answer = {each: getattr(request, each) for each in ("state", "code", "iss", "error", "error_description")}
    ended = await _service(ctx).finish(
        cookies.read(request.cookie, https=request.https, name=name),
        answer,
        instead_of=cookies.read(request.cookie, https=request.https),
    )
    return redirect(
        ended.next,
        ("set-cookie", cookies.written(ended.session, https=request.https)),
        ("set-cookie", cookies.cleared(https=request.https, name=name)),
    )


class LoggedOutThere(Wire, frozen=True, kw_only=True):
    logout_token: str = ""


async def _logged_out_there(ctx: ApiContext, caller: Caller, request: LoggedOutThere) -> Reply:
    try:
        await _service(ctx).end_by_provider(request.logout_token)
    except (SignInInvalid, ProviderTrouble) as error:  # 400 whatever is wrong (Back-Channel Logout 1.0, 2.8)
        raise InvalidParameterValue(error.message) from error
    return Reply(body=b"", content_type="text/plain", headers=(("cache-control", "no-store"),))


def _service(ctx: ApiContext) -> SignInService:
    if ctx.services.sign_in is None:
        raise EndpointNotFound("This workspace has no identity provider (oidc_issuer). Log in with a token at /login.")
    return ctx.services.sign_in


def _name(key: str) -> str:
    return f"{cookies.SIGN_IN}-{key}"


_PROVIDER = Group("sessions", lambda ctx: ctx, "/login", **PAGE_FACTS)
_FROM_PROVIDER = Group("sessions", lambda ctx: ctx, "/login", needs=(), auth=Auth.NONE, documented=False)
OPERATIONS: tuple[Operation, ...] = (
    _PROVIDER("GET /provider", _go, "Go to the identity provider to log in"),
    _PROVIDER(
        "GET /callback",
        _back,
        "Come back from the identity provider: begin a browser session",
        name="log_in_with_provider",
        logs_in=True,
    ),
    _FROM_PROVIDER(
        "POST /backchannel-logout",
        _logged_out_there,
        "The identity provider says that somebody has logged out there",
        name="log_out_by_provider",
        urlencoded=True,
        body_limit=MAX_FORM,
    ),
)
