"""The authorization endpoint of OAuth: people let a program on their own machine act for them (authorization code with PKCE)."""

from __future__ import annotations

import re
from html import escape
from urllib.parse import urlencode

from brickyard.api.browser.html import hidden, login_at, page, redirect
from brickyard.api.browser.login import PAGE_FACTS, FromBrowser, check_csrf, session_of
from brickyard.api.context import ApiContext
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import ApiError
from brickyard.features.credentials.oauth import CLIENT_ID, InvalidOAuthRequest, known_scope
from brickyard.plan.browsers import loopback

PATH = "/oidc/v1/authorize"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_ASKED = ("response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method")


class Authorize(FromBrowser, frozen=True, kw_only=True):
    """RFC 6749, 4.1.1, and RFC 7636. Only S256 counts as a challenge."""

    response_type: str = ""
    client_id: str = ""
    redirect_uri: str = ""
    scope: str = ""
    state: str = ""
    code_challenge: str = ""
    code_challenge_method: str = ""

    @property
    def asked(self) -> dict[str, str]:
        """The request's own fields, without headers."""
        return {name: value for name in _ASKED if (value := getattr(self, name))}


class Consent(Authorize, frozen=True, kw_only=True):
    """The form of the consent page."""

    decision: str = ""
    csrf_token: str = ""


async def _ask(ctx: ApiContext, caller: Caller, request: Authorize) -> Reply:
    origin = _client_origin(request)
    try:
        _check(request)
    except ApiError as error:
        return _back(request, error=error.error_code, error_description=error.message)
    session = await session_of(ctx, request)
    if session is None:
        return login_at(f"{PATH}?{urlencode(request.asked)}")
    return page(
        "Let a program act for you?",
        f"<p>A program on this computer, which listens at {escape(origin)}, asks to act as "
        f"<b>{escape(session.caller.user_name)}</b> in this workspace. Allow it only if you have just started it.</p>"
        f'<form method="post" action="{PATH}">{hidden(request.asked | {"csrf_token": session.csrf_token})}'
        '<button class="main" name="decision" value="allow">Allow</button>'
        '<button name="decision" value="deny">Refuse</button></form>',
        forms_to=origin,
    )


async def _decide(ctx: ApiContext, caller: Caller, request: Consent) -> Reply:
    request.check_origin()
    _client_origin(request)
    _check(request)
    session = await session_of(ctx, request)
    if session is None:
        return login_at(f"{PATH}?{urlencode(request.asked)}")
    check_csrf(session, request.csrf_token)
    if request.decision != "allow":
        return _back(request, error="access_denied", error_description="The user refused.")
    code = await ctx.services.oauth.authorize(
        session.caller, redirect_uri=request.redirect_uri, scope=known_scope(request.scope), challenge=request.code_challenge
    )
    return _back(request, code=code)


def _client_origin(request: Authorize) -> str:
    """Where the client listens. Raises InvalidOAuthRequest: an error that must not be sent to whoever is named there."""
    if request.client_id != CLIENT_ID:
        raise InvalidOAuthRequest(f"client_id is {request.client_id[:100]!r}; the only client for people is {CLIENT_ID}.")
    if not (origin := loopback(request.redirect_uri)):
        raise InvalidOAuthRequest(
            f"redirect_uri is {request.redirect_uri[:200]!r}; it must lead to a port of the user's own machine, such as "
            "http://localhost:8020."
        )
    return origin


def _check(request: Authorize) -> None:
    if request.response_type != "code":
        raise InvalidOAuthRequest("response_type must be code.")
    if request.code_challenge_method != "S256" or not _CHALLENGE.fullmatch(request.code_challenge):
        raise InvalidOAuthRequest("code_challenge must be a challenge of code_challenge_method S256 (PKCE).")
    known_scope(request.scope)


def _back(request: Authorize, **answer: str) -> Reply:
    """Leads back to the client."""
    state = {"state": request.state} if request.state else {}
    return redirect(f"{request.redirect_uri}?{urlencode(answer | state)}")


_AUTHORIZE = Group("oauth", lambda ctx: ctx, PATH, **PAGE_FACTS)
OPERATIONS: tuple[Operation, ...] = (
    _AUTHORIZE("GET", _ask, "Ask the user to let a program act for them", name="authorize"),
    _AUTHORIZE("POST", _decide, "The user's decision", name="consent", urlencoded=True),
)
