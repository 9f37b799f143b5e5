"""The few pages of our own. They hold nothing from a cluster, run no scripts, and can be shown in no other page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from urllib.parse import quote, urlencode

from brickyard.api.browser.style import MARK, STYLE
from brickyard.api.edge.dialects import TEXT, Dialect, Failure, Reply, plain_body
from brickyard.domain.errors import Unauthenticated

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_TITLES = {
    400: "This does not work",
    401: "You are not logged in",
    403: "This is not allowed",
    404: "There is no such page",
    429: "Too many attempts",
    502: "The identity provider has a problem",
    503: "The workspace is busy",
}


class WrongForm(Unauthenticated):
    """What was entered is wrong: the log-in page says so, with the form again."""

    def __init__(self, message: str, *, next_path: str, provider: str) -> None:
        super().__init__(message)
        self.next_path = next_path
        self.provider = provider


def headers(*, forms_to: str = "") -> tuple[tuple[str, str], ...]:
    """What every page is sent with. `forms_to` is an origin that the answer to a form may lead to."""
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self' {forms_to}".rstrip()
        + "; frame-ancestors 'none'; base-uri 'none'"
    )
    return (
        ("content-security-policy", policy),
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),  # with "no-referrer" browsers would not say which page a form came from
        ("cache-control", "no-store"),
    )


def page(title: str, body: str, *, status: int = 200, more: tuple[tuple[str, str], ...] = (), forms_to: str = "") -> Reply:
    """A page; `body` is HTML."""
    document = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} - Brickyard</title><style>{STYLE}</style></head>"
        f'<body><div class="brand">{MARK}Brickyard</div><main><h1>{escape(title)}</h1>{body}</main></body></html>'
    )
    return Reply(
        body=document.encode(),
        status=status,
        content_type="text/html; charset=utf-8",
        headers=(*headers(forms_to=forms_to), *more),
    )


def redirect(target: str, *more: tuple[str, str]) -> Reply:
    """Leads to another page."""
    headers = (("location", target), ("cache-control", "no-store"), *more)
    return Reply(body=b"", status=303, content_type="text/plain", headers=headers)


def hidden(fields: Mapping[str, str]) -> str:
    """Fields of a form that are not shown."""
    return "".join(f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in fields.items())


def login_page(next_path: str, *, provider: str = "", message: str = "", wrong: bool = False) -> Reply:
    """Asks for a token, or leads to the identity provider, if there is one of that name. `wrong`: the message is an error."""
    said = f'<p class="{"wrong" if wrong else "note"}" role="alert">{escape(message)}</p>' if message else ""
    other = ""
    if provider:
        place = f"/login/provider?{urlencode({'next': next_path})}"
        other = (
            f'<a class="button main" href="{escape(place)}">Log in with {escape(provider)}</a>'
            '<div class="or"><span>or with a token</span></div>'
        )
    return page(
        "Log in",
        f'{said}{other}<form method="post" action="/login">{hidden({"next": next_path})}<label for="token">Access token</label>'
        f'<input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required'
        f'{"" if provider else " autofocus"} aria-describedby="help">'
        '<p class="help" id="help">A personal access token of this workspace. An administrator can make you one.</p>'
        f'<button type="submit"{"" if provider else " class=main"}>Log in</button></form>',
        status=401 if wrong else 200,
    )


def login_at(target: str) -> Reply:
    """Leads to the log-in page, and from there to `target`."""
    return redirect(f"/login?next={quote(target, safe='')}")


def _failure(failure: Failure) -> Reply:
    error = failure.error
    if isinstance(error, WrongForm):
        return login_page(error.next_path, provider=error.provider, message=failure.message, wrong=True)
    status = error.http_status
    again = '<a class="button" href="/login">To the log-in page</a>' if status in (400, 401, 403, 429, 502) else ""
    number = f'<p class="help">Request {escape(failure.request_id)}</p>' if failure.request_id else ""
    return page(
        _TITLES.get(status, "Something went wrong"),
        f'<p class="wrong" role="alert">{escape(failure.message)}</p>{again}{number}',
        status=status,
    )


PAGES = Dialect(name="ErrorPage", properties={"error_code": TEXT, "message": TEXT}, body=plain_body, page=_failure)
