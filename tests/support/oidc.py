"""An OpenID Connect provider on loopback that can lie about everything. An honest one is the package oidc-provider-mock."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "brickyard", "a secret/with: characters"


@functools.cache
def rsa(number: int = 1) -> RSAKey:
    """A key pair; another one for another number."""
    return RSAKey.generate_key(2048, parameters={"kid": secrets.token_hex(4), "use": "sig", "alg": "RS256"})


class LyingProvider:
    """Honest until told otherwise. Everything that a test changes is an attribute."""

    def __init__(self) -> None:
        self.key: RSAKey = rsa()  # what ID tokens are signed with
        self.published: list[RSAKey] = [self.key]
        self.claims: dict[str, Any] = {}  # besides and instead of the right ones; None leaves one out
        self.discovery: dict[str, Any] = {}  # likewise
        self.userinfo: dict[str, Any] | None = None
        self.token_answer: Callable[[], web.Response] | None = None
        self.sleeps_s = 0.0
        self.issued = ""  # the last ID token
        self.codes: dict[str, dict[str, str]] = {}  # code -> what the authorization request had asked
        self.asked: list[tuple[str, dict[str, str]]] = []  # path, and form of each request
        self.issuer = ""

    async def start(self) -> None:
        app = web.Application(middlewares=[self._remember])
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/keys", self._keys)
        app.router.add_post("/token", self._token)
        app.router.add_get("/userinfo", self._userinfo)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.issuer = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    def authorize(self, url: str) -> dict[str, str]:
        """What the user's log-in there answers, for the redirect back."""
        parts, asked = urlsplit(url), self.asked_of(url)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.issuer}/authorize"
        assert (asked["response_type"], asked["client_id"], asked["code_challenge_method"]) == ("code", CLIENT_ID, "S256")
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return {"state": asked["state"], "code": code}

    @staticmethod
    def asked_of(url: str) -> dict[str, str]:
        """The parameters of an authorization request."""
        return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "248289761001",
            "exp": now + 300,
            "iat": now,
            "nonce": nonce,
            "email": "anna@example.com",
            "email_verified": True,
            "name": "Anna O",
        } | self.claims
        header = {"alg": "RS256", "kid": self.key.kid}
        claims = {name: value for name, value in claims.items() if value is not None}
        self.issued = jwt.encode(header, claims, self.key)
        return self.issued

    def logout_token(self, **changes: Any) -> str:
        """What the provider posts when somebody has logged out there. None leaves a claim out."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 120,
            "jti": secrets.token_hex(8),
            "sub": "248289761001",
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        } | changes
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": self.key.kid, "typ": "logout+jwt"}, claims, self.key)

    @web.middleware
    async def _remember(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append((request.path, {name: str(value) for name, value in (await request.post()).items()}))
        await asyncio.sleep(self.sleeps_s)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _discovery(self, request: web.Request) -> web.Response:
        said: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        } | self.discovery
        return web.json_response({name: value for name, value in said.items() if value is not None})

    async def _keys(self, request: web.Request) -> web.Response:
        return web.json_response({"keys": [key.as_dict(private=False) for key in self.published]})

    async def _token(self, request: web.Request) -> web.Response:
        if self.token_answer is not None:
            return self.token_answer()
        form = self.asked[-1][1]
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or form["redirect_uri"] != asked["redirect_uri"] or not _proves(form["code_verifier"], asked):
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response({"id_token": self.id_token(asked["nonce"]), "access_token": "an-access-token"})

    async def _userinfo(self, request: web.Request) -> web.Response:
        assert request.headers["authorization"] == "Bearer an-access-token"
        return web.json_response(self.userinfo)


def _proves(verifier: str, asked: dict[str, str]) -> bool:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=") == asked["code_challenge"]
