"""A browser, as far as the server can tell."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import requests

from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN


class Browser:
    """Keeps cookies, names its origin, and follows no redirects by itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = requests.Session()

    def get(self, path: str, **headers: str) -> requests.Response:
        return self.http.get(self.url + path, headers=headers, allow_redirects=False, timeout=PATIENCE_S)

    def post(self, path: str, form: dict[str, str] | None = None, /, *, json: Any = None, **headers: Any) -> requests.Response:
        sent = {"Origin": self.url} | headers
        return self.http.post(self.url + path, data=form, json=json, headers=sent, allow_redirects=False, timeout=PATIENCE_S)

    def log_in(self, token: str = TOKEN, next: str = "") -> requests.Response:
        return self.post("/login", {"token": token, "next": next})

    @property
    def csrf(self) -> str:
        return str(self.get("/login/session").json()["csrf_token"])

    @property
    def logged_in(self) -> bool:
        return self.get("/api/2.0/preview/scim/v2/Me").status_code == 200

    def consent(self, query: str, decision: str = "allow") -> requests.Response:
        """Opens the consent page, and submits its form."""
        page = self.get(f"/oidc/v1/authorize?{query}")
        assert page.status_code == 200, page.text
        form = {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text)}
        return self.post("/oidc/v1/authorize", form | {"decision": decision})
