"""People log in through a real OpenID Connect provider: in the browser, and with the official SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import oidc_provider_mock  # type: ignore[import-untyped] # it has no types
import pytest
import requests
from databricks.sdk.oauth import OAuthClient

from tests.support.browser import Browser
from tests.support.patience import PATIENCE_S, until
from tests.support.server import TOKEN, Server

BACK = "http://localhost:8020"
ANNA = "anna@example.com"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with oidc_provider_mock.run_server_in_thread(require_nonce=True) as provider:
        yield f"http://localhost:{provider.server_port}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, issuer: str) -> Iterator[Server]:
    settings: dict[str, Any] = {
        "oidc_issuer": issuer,
        "oidc_client_id": "brickyard",
        "oidc_client_secret": "s3cr3t-of-the-client",
        "oidc_name": "Example <Login>",
        "oidc_domains": "example.com",
        "oidc_create_users": True,
        "oidc_groups": "eng=engineers",
        "oidc_single_log_out": True,
    }
    with Server.running(tmp_path_factory.mktemp("workspace"), provider="simulated", **settings) as running:
        yield running


@pytest.fixture
def browser(server: Server) -> Iterator[Browser]:
    opened = Browser(server.url)
    with opened.http:
        yield opened


def at_provider(issuer: str, browser: Browser, user: str, next: str = "/login", **claims: Any) -> str:
    """Chooses the provider on the log-in page, and logs in there as that user. Returns where the browser is sent back to."""
    known: Any = {"email": user, "email_verified": True, "name": "Anna O"} | claims
    requests.put(f"{issuer}/users/{user}", json=known, timeout=PATIENCE_S).raise_for_status()
    page = browser.get(f"/login?next={next}")
    assert "Log in with Example &lt;Login&gt;" in page.text
    gone = browser.get(f"/login/provider?next={next}", **{"Sec-Fetch-Site": "same-origin"})
    assert gone.status_code == 303, gone.text
    chosen = requests.post(gone.headers["Location"], data={"sub": user}, allow_redirects=False, timeout=PATIENCE_S)
    place = chosen.headers["Location"]
    assert place.startswith(f"{browser.url}/login/callback?"), chosen.text
    return place.removeprefix(browser.url)


def test_log_in_and_out_through_the_provider(server: Server, browser: Browser, issuer: str) -> None:
    came_back = browser.get(at_provider(issuer, browser, ANNA, groups=["eng"]), **{"Sec-Fetch-Site": "cross-site"})
    assert (came_back.status_code, came_back.headers["Location"]) == (303, "/login"), came_back.text
    assert browser.get("/login/session").json()["user_name"] == ANNA
    me = browser.get("/api/2.0/preview/scim/v2/Me").json()
    assert {each["display"] for each in me["groups"]} == {"engineers", "users"}
    assert [name for name in browser.http.cookies.get_dict() if name.startswith("brickyard-sign-in")] == []
    left = browser.post("/logout", {"csrf_token": browser.csrf})
    assert not browser.logged_in
    place = left.headers["Refresh"].removeprefix("0; url=")
    assert place.startswith(f"{issuer}/oauth2/end_session?")
    assert escape(place) in left.text
    asked = {name: each[0] for name, each in parse_qs(urlsplit(place).query).items()}
    assert (asked["post_logout_redirect_uri"], asked["id_token_hint"].count(".")) == (f"{server.url}/login", 2)
    assert requests.get(place, timeout=PATIENCE_S).status_code == 200


def test_nobody_else_logs_people_out(server: Server) -> None:
    for form in ({}, {"logout_token": "a.b.c"}, {"logout_token": TOKEN}):
        answer = requests.post(f"{server.url}/login/backchannel-logout", data=form, timeout=PATIENCE_S)
        assert answer.status_code == 400, answer.text


def test_the_sdk_logs_in_through_the_provider(server: Server, browser: Browser, issuer: str) -> None:
    """As `databricks auth login` does: its page asks for the browser's session, and that comes from the provider."""
    consent = OAuthClient.from_host(server.url, "databricks-cli", BACK).initiate_consent()
    asked = urlsplit(consent.authorization_url)
    login = browser.get(f"{asked.path}?{asked.query}").headers["Location"]
    next_path = urlsplit(login).query.removeprefix("next=")
    came_back = browser.get(at_provider(issuer, browser, ANNA, next_path))
    assert came_back.headers["Location"] == parse_qs(urlsplit(login).query)["next"][0]
    answer = browser.consent(urlsplit(came_back.headers["Location"]).query).headers["Location"]
    values = {name: each[0] for name, each in parse_qs(urlsplit(answer).query).items()}
    token = consent.exchange_callback_parameters(values).token()
    assert server.client(token.access_token).current_user.me().user_name == ANNA


def test_refusals_have_a_page_and_an_entry(server: Server, browser: Browser, issuer: str) -> None:
    def entries() -> list[dict[str, Any]]:
        query = {"operation": "sessions.log_in_with_provider"}
        answer: Any = server.client().api_client.do("GET", "/api/2.0/audit-logs", query=query)
        return list(answer.get("entries", []))

    place = at_provider(issuer, browser, ANNA)
    attempts: list[tuple[int, str, Callable[[], requests.Response]]] = [
        (403, "SIGN_IN_REFUSED", lambda: browser.get(at_provider(issuer, browser, "eve@evil.example"))),
        (401, "SIGN_IN_INVALID", lambda: browser.get("/login/callback?state=made-up&code=x")),
        (401, "SIGN_IN_INVALID", lambda: Browser(server.url).get(place)),  # somebody else's browser: log-in CSRF
        (401, "SIGN_IN_INVALID", lambda: browser.get(place + "&iss=https://evil.example")),
    ]
    for status, code, attempt in attempts:
        before = len(entries())
        refused = attempt()
        assert refused.status_code == status, refused.text
        assert refused.headers["content-type"].startswith("text/html")
        assert "To the log-in page" in refused.text
        assert "Set-Cookie" not in refused.headers
        until(lambda before=before: len(entries()) > before)  # type: ignore[misc] # bound now
        entry = entries()[0]
        assert (entry["status"], entry["error_code"], entry["address"]) == (status, code, "127.0.0.1")
    assert any(each.get("objects") == {"user_name": "eve@evil.example"} for each in entries())
    assert browser.get(place).status_code == 303
    assert browser.get(place).status_code == 401, "it counts once"
    done = next(each for each in entries() if each["status"] == 200)
    assert (done["user_name"], done["credential_id"]) == (ANNA, f"{issuer} {ANNA}")
    assert "s3cr3t" not in str(entries())


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:1"])
def test_the_way_back_leads_nowhere_else(server: Server, browser: Browser, issuer: str, target: str) -> None:
    assert browser.get(at_provider(issuer, browser, ANNA, target)).headers["Location"] == "/"


def test_other_pages_cannot_begin_a_log_in(browser: Browser) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        assert browser.get("/login/provider", **headers).status_code == 403


def test_without_the_provider_tokens_work(server: Server, browser: Browser, tmp_path: Any) -> None:
    settings: dict[str, Any] = {"oidc_issuer": "http://127.0.0.1:1", "oidc_client_id": "brickyard"}
    with Server.running(tmp_path, provider="simulated", **settings) as alone:
        other = Browser(alone.url)
        refused = other.get("/login/provider")
        assert refused.status_code == 502
        assert "cannot be reached" in refused.text
        assert other.log_in(TOKEN).status_code == 303
        assert other.logged_in
        other.http.close()


def test_without_a_provider_there_is_no_such_page(tmp_path: Any) -> None:
    with Server.running(tmp_path, provider="simulated") as plain:
        browser = Browser(plain.url)
        assert "Log in with" not in browser.get("/login").text
        for path in ("/login/provider", "/login/callback?state=x&code=y"):
            assert browser.get(path).status_code == 404
        browser.http.close()


def test_the_provider_leads_back_to_external_url(tmp_path: Path, issuer: str) -> None:
    """A browser that began elsewhere is led there first, once: its cookie must be where it comes back."""
    external = "https://bricks.example.com"
    settings: dict[str, Any] = {"oidc_issuer": issuer, "oidc_client_id": "brickyard", "external_url": external}
    with Server.running(tmp_path, provider="simulated", **settings) as outside:

        def go(path: str, host: str) -> str:
            headers = {"Host": host, "Sec-Fetch-Site": "same-origin"}
            answer = requests.get(outside.url + path, headers=headers, allow_redirects=False, timeout=PATIENCE_S)
            assert answer.status_code == 303, answer.text
            return answer.headers["Location"]

        moved = go("/login/provider?next=/clusters", "127.0.0.1")
        assert moved == f"{external}/login/provider?next=%2Fclusters&moved=true"
        for path, host in (("/login/provider", "bricks.example.com"), (moved.removeprefix(external), "127.0.0.1")):
            place = urlsplit(go(path, host))
            assert place.geturl().startswith(issuer)
            assert parse_qs(place.query)["redirect_uri"] == [f"{external}/login/callback"]
