"""Authenticates callers: one authenticator for the API, Spark Connect and the Spark UI."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from brickyard.api.edge import cookies
from brickyard.api.edge.throttle import LoginThrottle
from brickyard.domain.caller import Caller
from brickyard.domain.errors import MalformedRequest, PermissionDenied, RequestLimitExceeded, Unauthenticated
from brickyard.domain.sources import FORWARDED, source_of
from brickyard.features.credentials.sessions import Session
from brickyard.plan.browsers import navigation, own_request

MISSING = "Credential was not sent or was of an unsupported type for this API. Send a token as a bearer."
UNKNOWN = "Invalid access token. It is not known to this workspace, has expired or was revoked."
UNKNOWN_LINK = "This link has expired, or does not belong to this workspace. Log in for a new one."
UNKNOWN_SESSION = "The session has expired or was ended. Log in at /login."
FOREIGN = (
    "This request comes from a page of another origin, so the browser's session does not count. If a proxy ends TLS in front "
    "of the server, name the proxy in the setting trusted_proxies."
)

PROXIED = "brickyard.proxied"  # in a request's scope: a proxy of `trusted_proxies` has passed it on

T = TypeVar("T")


class Tokens(Protocol):
    """`features.credentials.tokens.TokenService`."""

    def known(self, bearer: str) -> Caller | None: ...

    async def authenticate(self, bearer: str) -> Caller | None: ...


class Links(Protocol):
    """`features.credentials.uilinks.UiLinks`."""

    async def caller(self, given: str, cluster_id: str) -> Caller | None: ...


class Sessions(Protocol):
    """`features.credentials.sessions.SessionService`."""

    async def find(self, cookie: str) -> Session | None: ...


class Gate(Protocol):
    """`features.ipaccess.gate.AddressGate`."""

    async def admit(self, source: str) -> None: ...


class Authenticator:
    """Finds the caller for a client's credentials. Every method that does raises Unauthenticated, with the message `missing` if
    no credentials were sent, and RequestLimitExceeded where too many wrong ones have come from `address` (`throttle`). `cookie`
    is the name of the sessions' cookie, `own_address` the address at which the server listens, unless it listens at several."""

    def __init__(
        self,
        *,
        tokens: Tokens,
        links: Links,
        sessions: Sessions | None = None,
        throttle: LoginThrottle | None = None,
        gate: Gate | None = None,
        own_address: str = "",
        cookie: str = cookies.NAME,
    ) -> None:
        self._cookie = cookie
        self._tokens = tokens
        self._sessions = sessions
        self._links = links
        self.throttle = throttle or LoginThrottle()
        self._gate = gate
        self._own = own_address

    async def admit(self, source: str) -> None:
        """Raises PermissionDenied if IP access lists keep calls from there out (`domain.sources`). Every door asks this before it
        looks at credentials, and again while something goes on."""
        if self._gate is not None:
            await self._gate.admit(source)

    def source(self, scope: Mapping[str, Any]) -> str:
        """Where a request comes from, for IP access lists (`domain.sources`)."""
        forwarded = any(key in FORWARDED for key, _ in scope["headers"])
        return source_of(address_of(scope), own_address=self._own, proxied=bool(scope.get(PROXIED)), forwarded=forwarded)

    async def of_request(self, scope: Mapping[str, Any], *, missing: str = MISSING) -> Caller:
        """From a request's Authorization header or, if it has none, from the browser's session."""
        sent = _authorization(scope["headers"])
        if sent is None and self._sessions is not None:
            return await self.of_session(scope, missing=missing)
        return await self.of_token(_bearer(sent), address=address_of(scope), missing=missing)

    async def of_session(self, scope: Mapping[str, Any], *, missing: str = MISSING) -> Caller:
        """From the session cookie. It does not count where another site's page asks, and calls that change something need the
        session's CSRF token too. Raises PermissionDenied."""
        sent = {key: value.decode("latin-1") for key, value in scope["headers"]}
        session = await self._session(scope, sent, missing=missing)
        own = own_request(own_origin=base_url(scope), origin=sent.get(b"origin", ""), fetch_site=sent.get(b"sec-fetch-site", ""))
        if not own:
            raise PermissionDenied(FOREIGN)
        given = sent.get(b"x-csrf-token", "")
        if scope.get("method") not in ("GET", "HEAD") and not hmac.compare_digest(given.encode(), session.csrf_token.encode()):
            raise PermissionDenied("Calls of a browser session that change something need its CSRF token as X-CSRF-Token.")
        return session.caller

    async def _session(self, scope: Mapping[str, Any], sent: Mapping[bytes, str], *, missing: str) -> Session:
        cookie = cookies.read(sent.get(b"cookie", ""), https=scope["scheme"] in ("https", "wss"), name=self._cookie)
        if not cookie or self._sessions is None:
            raise Unauthenticated(missing)
        self.throttle.admit(address_of(scope), cookie)
        session = await self._sessions.find(cookie)
        if session is None:
            raise Unauthenticated(UNKNOWN_SESSION)
        self.throttle.accepted(cookie)
        return session

    async def of_navigation(self, scope: Mapping[str, Any]) -> Caller:
        """From the session cookie, for a page that a browser opens as a whole, wherever the link to it was."""
        sent = {key: value.decode("latin-1") for key, value in scope["headers"]}
        session = await self._session(scope, sent, missing=UNKNOWN_SESSION)
        if not navigation(fetch_mode=sent.get(b"sec-fetch-mode", ""), fetch_dest=sent.get(b"sec-fetch-dest", "")):
            raise PermissionDenied(FOREIGN)
        return session.caller

    async def throttled(self, address: str, answer: Awaitable[T]) -> T:
        """The answer of an operation that checks credentials itself: wrong ones count for the address."""
        try:
            self.throttle.admit(address, "")
        except RequestLimitExceeded:
            if isinstance(answer, Coroutine):
                answer.close()
            raise
        try:
            return await answer
        except Unauthenticated:
            self.throttle.failed(address, "", recorded=True)  # as the refusal of that operation
            raise

    def of_headers(
        self, headers: Iterable[tuple[bytes, bytes]], *, address: str = "", missing: str = MISSING
    ) -> Awaitable[Caller]:
        """From a request's Authorization header. Raises MalformedRequest if there are two."""
        return self.of_token(bearer_of(headers), address=address, missing=missing)

    def of_metadata(self, metadata: Mapping[str, Any], *, address: str = "", missing: str) -> Awaitable[Caller]:
        """From a gRPC call's metadata."""
        scheme, _, token = str(metadata.get("authorization", "")).partition(" ")
        return self.of_token(token.strip() if scheme.lower() == "bearer" else "", address=address, missing=missing)

    async def of_token(self, token: str, *, address: str = "", missing: str = UNKNOWN) -> Caller:
        """From the token itself."""
        if not token:
            raise Unauthenticated(missing)
        self.throttle.admit(address, token)
        caller = self._tokens.known(token) or await self._tokens.authenticate(token)
        if caller is None:
            self.throttle.failed(address, token)
            raise Unauthenticated(UNKNOWN)
        self.throttle.accepted(token)
        return caller

    async def of_link(self, given: str, cluster_id: str, *, address: str = "") -> Caller:
        """From the pass in a link to that cluster's pages."""
        self.throttle.admit(address, given)
        caller = await self._links.caller(given, cluster_id)
        if caller is None:
            self.throttle.failed(address, given)
            raise Unauthenticated(UNKNOWN_LINK)
        self.throttle.accepted(given)
        return caller


def address_of(scope: Mapping[str, Any]) -> str:
    """The client's address; "" if unknown. Only a trusted proxy can name another one than the connection's."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def base_url(scope: Mapping[str, Any]) -> str:
    """The server's URL as the client used it."""
    for key, value in scope["headers"]:
        if key == b"host":
            return f"{scope['scheme']}://{value.decode('latin-1')}"
    host, port = scope.get("server") or ("localhost", None)
    host = f"[{host}]" if ":" in host else host
    return f"{scope['scheme']}://{host}:{port}" if port else f"{scope['scheme']}://{host}"


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token that was sent, or "". Old clients and .netrc files send it by Basic authentication with the user `token`.

    Raises MalformedRequest for two Authorization headers: a proxy before us may have checked the other one.
    """
    return _bearer(_authorization(headers))


def _authorization(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The Authorization header. Raises MalformedRequest."""
    found: bytes | None = None
    for key, value in headers:
        if key == b"authorization":
            if found is not None:
                raise MalformedRequest("The request has several Authorization headers. Send one.")
            found = value
    return found


def _bearer(authorization: bytes | None) -> str:
    scheme, _, rest = (authorization or b"").partition(b" ")
    if (kind := scheme.lower()) == b"bearer":
        return rest.strip().decode("latin-1")
    if kind == b"basic":
        try:
            user, _, password = base64.b64decode(rest, validate=True).partition(b":")
        except binascii.Error:
            return ""
        return password.decode("latin-1") if user == b"token" else ""
    return ""
