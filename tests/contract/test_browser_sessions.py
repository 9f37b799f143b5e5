"""Browser sessions and OAuth for people over HTTP: log-in, CSRF, log-out, PKCE through the official SDK, and attacks on them."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.oauth import OAuthClient

from tests.support.browser import Browser
from tests.support.patience import PATIENCE_S, until
from tests.support.server import TOKEN, Server

BACK = "http://localhost:8020"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
ASKED = {
    "response_type": "code",
    "client_id": "databricks-cli",
    "redirect_uri": BACK,
    "scope": "all-apis offline_access",
    "state": "s",
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
}


@pytest.fixture
def browser(server: Server) -> Iterator[Browser]:
    opened = Browser(server.url)
    with opened.http:
        yield opened


def answer_of(response: requests.Response) -> dict[str, str]:
    """What a redirect to the client says."""
    assert response.status_code == 303, response.text
    place = response.headers["Location"]
    assert place.startswith(BACK + "?")
    return {name: values[0] for name, values in parse_qs(urlsplit(place).query).items()}


def exchange(server: Server, **form: str) -> requests.Response:
    form = {"grant_type": "authorization_code", "client_id": "databricks-cli", "redirect_uri": BACK} | form
    return requests.post(f"{server.url}/oidc/v1/token", data=form, timeout=PATIENCE_S)


def error_of(response: requests.Response) -> str:
    assert response.status_code in (400, 401)
    return str(response.json()["error"])


def test_log_in_and_out(browser: Browser) -> None:
    assert not browser.logged_in
    page = browser.get("/login?next=%2Fspark-ui%2Fx%2F")
    assert 'value="/spark-ui/x/"' in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    entered = browser.log_in(next="/spark-ui/x/")
    assert (entered.status_code, entered.headers["Location"]) == (303, "/spark-ui/x/")
    written = entered.headers["Set-Cookie"]
    assert "HttpOnly" in written
    assert "SameSite=Lax" in written
    assert browser.logged_in
    assert browser.get("/login/session").json()["user_name"] == "admin@brickyard.local"
    kept = browser.http.cookies.get("brickyard-session") or ""
    assert browser.post("/logout", {"csrf_token": browser.csrf}).status_code == 303
    assert not browser.logged_in
    assert browser.get("/api/2.0/preview/scim/v2/Me", Cookie=f"brickyard-session={kept}").status_code == 401, "a replay"


def test_a_wrong_token_begins_nothing(browser: Browser) -> None:
    for token in ("", "dapi" + "f" * 32):
        refused = browser.log_in(token)
        assert refused.status_code == 401
        assert refused.headers["content-type"].startswith("text/html")
        assert "Set-Cookie" not in refused.headers


def test_a_session_ends_with_its_token(server: Server, w: WorkspaceClient, browser: Browser) -> None:
    made = w.tokens.create()
    assert made.token_info
    browser.log_in(made.token_value or "")
    assert browser.logged_in
    w.tokens.delete(made.token_info.token_id or "")
    assert not browser.logged_in


def test_no_cookie_from_before_the_log_in_counts_after_it(server: Server, browser: Browser) -> None:
    browser.http.cookies.set("brickyard-session", "chosen-by-somebody-else")
    browser.log_in()
    first = browser.http.cookies.get_dict()["brickyard-session"]
    assert first != "chosen-by-somebody-else"
    browser.log_in()
    assert browser.http.cookies.get_dict()["brickyard-session"] != first
    assert browser.get("/login/session", Cookie=f"brickyard-session={first}").status_code == 401


def test_the_cookie_is_no_token(server: Server, browser: Browser) -> None:
    browser.log_in()
    cookie = browser.http.cookies.get_dict()["brickyard-session"]
    answer = requests.get(f"{server.url}/api/2.0/token/list", headers={"Authorization": f"Bearer {cookie}"}, timeout=PATIENCE_S)
    assert answer.status_code == 401
    browser.http.cookies.set("brickyard-session", TOKEN)
    assert not browser.logged_in, "a token is no cookie"


def test_what_changes_something_needs_the_sessions_own_csrf_token(server: Server, browser: Browser) -> None:
    browser.log_in()
    other = Browser(server.url)
    other.log_in()

    def create(**headers: str) -> int:
        return browser.post("/api/2.0/token/create", json={"lifetime_seconds": 60}, **headers).status_code

    good = {"X-CSRF-Token": browser.csrf}
    assert create(**good) == 200
    for headers in (
        {},
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": other.csrf},
        good | {"Origin": "null"},
        good | {"Origin": "http://evil.example"},
        good | {"Sec-Fetch-Site": "cross-site"},
        good | {"Sec-Fetch-Site": "same-site"},
    ):
        assert create(**headers) == 403, headers
    other.http.close()


def test_other_pages_get_nothing_by_the_cookie(browser: Browser) -> None:
    """Such as a page of a cluster, which a browser shows in an origin of its own."""
    browser.log_in()
    for headers in ({"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        for path in ("/login/session", "/api/2.0/token/list"):
            answer = browser.get(path, **headers)
            assert answer.status_code == 403
            assert "Access-Control-Allow-Origin" not in answer.headers
    fetched = {"Accept": "text/html", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}
    assert browser.get("/spark-ui/0101-000000-another0/", **fetched).status_code == 403
    opened = browser.get("/spark-ui/0101-000000-another0/", Accept="text/html")
    assert re.fullmatch(r"/spark-ui/0101-000000-another0/~[\w-]+/", opened.headers["Location"])
    assert "Access-Control-Allow-Origin" not in opened.headers


def test_forms_of_other_pages_are_refused(server: Server, browser: Browser) -> None:
    assert browser.post("/login", {"token": TOKEN}, Origin="http://evil.example").status_code == 403
    browser.log_in()
    assert browser.post("/logout", {"csrf_token": "x"}).status_code == 403
    assert browser.post("/logout", {"csrf_token": browser.csrf}, Origin="null").status_code == 403
    assert browser.post("/oidc/v1/authorize", ASKED | {"decision": "allow"}).status_code == 403
    assert browser.post("/oidc/v1/authorize", ASKED | {"decision": "allow", "csrf_token": "x"}).status_code == 403
    assert browser.logged_in


@pytest.mark.parametrize(
    "target", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:1", "/a\r\nX: y", "/%0d"]
)
def test_the_way_back_leads_nowhere_else(browser: Browser, target: str) -> None:
    place = browser.log_in(next=target).headers["Location"]
    assert place in ("/", "/%0d")
    assert browser.get("/login?" + urlencode({"next": target})).headers["Location"] in ("/", "/%0d")


def test_a_person_logs_in_with_the_sdk(server: Server, browser: Browser) -> None:
    """What `databricks auth login` and `external-browser` do, without their fixed port."""
    consent = OAuthClient.from_host(server.url, "databricks-cli", BACK).initiate_consent()
    asked = urlsplit(consent.authorization_url)
    first = browser.get(f"{asked.path}?{asked.query}")
    assert first.status_code == 303
    login = parse_qs(urlsplit(first.headers["Location"]).query)["next"][0]
    entered = browser.log_in(next=login)
    assert entered.headers["Location"] == login
    credentials = consent.exchange_callback_parameters(answer_of(browser.consent(urlsplit(login).query)))
    token = credentials.token()
    assert server.client(token.access_token).current_user.me().user_name == "admin@brickyard.local"
    assert token.refresh_token
    fresh = credentials.refresh()
    assert fresh.access_token != token.access_token
    assert fresh.refresh_token != token.refresh_token
    assert server.client(fresh.access_token).current_user.me().user_name == "admin@brickyard.local"


def test_a_user_may_refuse(browser: Browser) -> None:
    browser.log_in()
    answer = answer_of(browser.consent(urlencode(ASKED), "deny"))
    assert (answer["error"], answer["state"]) == ("access_denied", "s")


def test_a_code_counts_once_and_takes_its_tokens_along(server: Server, browser: Browser) -> None:
    browser.log_in()
    code = answer_of(browser.consent(urlencode(ASKED)))["code"]
    assert error_of(exchange(server, code=code, code_verifier="w" * 43)) == "invalid_grant"
    assert error_of(exchange(server, code=code, code_verifier="")) == "invalid_grant"
    assert error_of(exchange(server, code=code, code_verifier=VERIFIER, redirect_uri=BACK + "/x")) == "invalid_grant"
    assert error_of(exchange(server, code=code, code_verifier=VERIFIER, client_id="other")) == "invalid_client"
    got = exchange(server, code=code, code_verifier=VERIFIER).json()
    server.client(got["access_token"]).current_user.me()
    assert error_of(exchange(server, code=code, code_verifier=VERIFIER)) == "invalid_grant"
    headers = {"Authorization": f"Bearer {got['access_token']}"}
    assert requests.get(f"{server.url}/api/2.0/token/list", headers=headers, timeout=PATIENCE_S).status_code == 401
    assert error_of(exchange(server, grant_type="refresh_token", refresh_token=got["refresh_token"])) == "invalid_grant"


def test_codes_and_refresh_tokens_are_not_each_other(server: Server, browser: Browser) -> None:
    browser.log_in()
    code = answer_of(browser.consent(urlencode(ASKED)))["code"]
    assert error_of(exchange(server, grant_type="refresh_token", refresh_token=code)) == "invalid_grant"
    got = exchange(server, code=code, code_verifier=VERIFIER).json()
    for wrong in (got["access_token"], TOKEN, ""):
        assert error_of(exchange(server, grant_type="refresh_token", refresh_token=wrong)) == "invalid_grant"
    assert error_of(exchange(server, code=got["refresh_token"], code_verifier=VERIFIER)) == "invalid_grant"


@pytest.mark.parametrize(
    "change",
    [
        {"code_challenge_method": "plain"},
        {"code_challenge_method": ""},
        {"code_challenge": ""},
        {"code_challenge": "short"},
        {"response_type": "token"},
        {"scope": "sql"},
    ],
)
def test_a_weaker_request_is_refused_to_the_client(browser: Browser, change: dict[str, str]) -> None:
    browser.log_in()
    answer = answer_of(browser.get(f"/oidc/v1/authorize?{urlencode(ASKED | change)}"))
    assert answer["error"] in ("invalid_request", "invalid_scope")
    assert (
        browser.post("/oidc/v1/authorize", ASKED | change | {"csrf_token": browser.csrf, "decision": "allow"}).status_code == 400
    )


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "other"},
        {"redirect_uri": "https://evil.example"},
        {"redirect_uri": "http://localhost.evil.example:8020"},
        {"redirect_uri": "http://localhost:8020@evil.example"},
        {"redirect_uri": "http://localhost:8020//evil.example"},
        {"redirect_uri": "http://localhost"},
        {"redirect_uri": ""},
    ],
)
def test_an_answer_goes_to_no_other_machine(browser: Browser, change: dict[str, str]) -> None:
    browser.log_in()
    for answer in (
        browser.get(f"/oidc/v1/authorize?{urlencode(ASKED | change)}"),
        browser.post("/oidc/v1/authorize", ASKED | change | {"csrf_token": browser.csrf, "decision": "allow"}),
    ):
        assert answer.status_code == 400
        assert "Location" not in answer.headers


def test_log_ins_are_in_the_audit_log_with_their_user(server: Server, w: WorkspaceClient, browser: Browser) -> None:
    def entries(operation: str) -> list[dict[str, Any]]:
        answer: Any = w.api_client.do("GET", "/api/2.0/audit-logs", query={"operation": operation})
        return list(answer.get("entries", []))

    def last(operation: str, status: int, before: int) -> dict[str, Any]:
        def new() -> list[dict[str, Any]]:  # newest first; an earlier log-in may get its entry only now
            found = entries(operation)
            return [each for each in found[: len(found) - before] if each["status"] == status]

        until(lambda: bool(new()))
        assert (new()[0]["operation"], new()[0]["address"]) == (operation, "127.0.0.1")
        return new()[0]

    before = {
        name: len(entries(name)) for name in ("sessions.log_in", "sessions.log_out", "oauth.consent", "oauth.token", "login")
    }
    browser.log_in("dapi" + "f" * 32)
    refused = last("sessions.log_in", 401, before["sessions.log_in"])
    assert "user_name" not in refused or not refused["user_name"]
    assert len(entries("login")) == before["login"], "one entry for each request"
    browser.log_in()
    entered = last("sessions.log_in", 200, before["sessions.log_in"] + 1)
    code = answer_of(browser.consent(urlencode(ASKED)))["code"]
    consented = last("oauth.consent", 200, before["oauth.consent"])
    exchange(server, code=code, code_verifier=VERIFIER)
    issued = last("oauth.token", 200, before["oauth.token"])
    exchange(server, code=code, code_verifier=VERIFIER)  # again: everything of this log-in ends
    until(lambda: len(entries("oauth.token")) == before["oauth.token"] + 2)
    until(lambda: entries("oauth.token")[0]["status"] == 400)
    again = entries("oauth.token")[0]
    browser.post("/logout", {"csrf_token": browser.csrf})
    left = last("sessions.log_out", 200, before["sessions.log_out"])
    me = w.current_user.me()
    for entry in (entered, consented, issued, again, left):
        assert (entry["user_name"], entry["user_id"]) == (me.user_name, me.id)
        assert entry["credential_id"]
