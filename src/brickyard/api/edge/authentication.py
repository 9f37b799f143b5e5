"""Authenticates callers: one authenticator for the API, Spark Connect and the Spark UI."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Protocol

from brickyard.domain.errors import MalformedRequest, Unauthenticated
from brickyard.services.caller import Caller

MISSING = "Credential was not sent or was of an unsupported type for this API. Send a token as a bearer."
UNKNOWN = "Invalid access token. It is not known to this workspace, has expired or was revoked."
UNKNOWN_LINK = "This link has expired, or does not belong to this workspace. Enter your token for a new one."


class Tokens(Protocol):
    """`services.tokens.TokenService`."""

    async def authenticate(self, bearer: str) -> Caller | None: ...


class Links(Protocol):
    """`services.uilinks.UiLinks`."""

    async def caller(self, given: str, cluster_id: str) -> Caller | None: ...


class Authenticator:
    """Finds the caller for a client's credentials. Every method raises Unauthenticated, with the message `missing` if no
    credentials were sent."""

    def __init__(self, *, tokens: Tokens, links: Links) -> None:
        self._tokens = tokens
        self._links = links

    def of_headers(self, headers: Iterable[tuple[bytes, bytes]], *, missing: str = MISSING) -> Awaitable[Caller]:
        """From a request's Authorization header. Raises MalformedRequest if there are two."""
        return self.of_token(bearer_of(headers), missing=missing)

    def of_metadata(self, metadata: Mapping[str, Any], *, missing: str) -> Awaitable[Caller]:
        """From a gRPC call's metadata."""
        scheme, _, token = str(metadata.get("authorization", "")).partition(" ")
        return self.of_token(token.strip() if scheme.lower() == "bearer" else "", missing=missing)

    async def of_token(self, token: str, *, missing: str = UNKNOWN) -> Caller:
        """From the token itself."""
        if not token:
            raise Unauthenticated(missing)
        caller = await self._tokens.authenticate(token)
        if caller is None:
            raise Unauthenticated(UNKNOWN)
        return caller

    async def of_link(self, given: str, cluster_id: str) -> Caller:
        """From the pass in a link to that cluster's pages."""
        caller = await self._links.caller(given, cluster_id)
        if caller is None:
            raise Unauthenticated(UNKNOWN_LINK)
        return caller


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token that was sent, or "". Old clients and .netrc files send it by Basic authentication with the user `token`.

    Raises MalformedRequest for two Authorization headers: a proxy before us may have checked the other one.
    """
    sent = [value for key, value in headers if key == b"authorization"]
    if len(sent) > 1:
        raise MalformedRequest(f"The request has {len(sent)} Authorization headers. Send one.")
    scheme, _, rest = sent[0].partition(b" ") if sent else (b"", b"", b"")
    if scheme.lower() == b"bearer":
        return rest.strip().decode("latin-1")
    if scheme.lower() == b"basic":
        try:
            user, _, password = base64.b64decode(rest, validate=True).partition(b":")
        except binascii.Error:
            return ""
        return password.decode("latin-1") if user == b"token" else ""
    return ""
