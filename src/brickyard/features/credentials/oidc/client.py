"""The HTTP client for an external OpenID Connect provider. It may be down, slow, or lie: answers are small, soon, and checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec
from joserfc.jwk import KeySet

from brickyard.domain.clock import Clock
from brickyard.domain.printable import printable
from brickyard.domain.signin import Provider, ProviderTrouble, SignInInvalid
from brickyard.features.credentials.oidc.rules import (
    Attempt,
    LoggedOut,
    Metadata,
    UnknownKey,
    keys,
    logged_out,
    metadata,
    token_request,
    verified,
)

ANSWER_S = 10.0  # for each request
MOST_BYTES = 1024 * 1024
MOST_AT_ONCE = 16  # requests; others wait
KEPT_MS = 3_600_000  # discovery document and keys: after this long they are read again
FRESH_MS = 10_000  # keys that were read so recently are not read again because of a signature


T = TypeVar("T")


class _Tokens(msgspec.Struct, frozen=True):
    """The answer of the token endpoint, or its error (RFC 6749, 5)."""

    id_token: str = ""
    access_token: str = ""
    error: str = ""
    error_description: str = ""


_decode_tokens = msgspec.json.Decoder(_Tokens).decode


class Shown(NamedTuple):
    """What the provider has shown of a person: the claims of the ID token, that token, and one for more."""

    claims: dict[str, Any]
    id_token: str
    access_token: str


class ProviderClient:
    """For one event loop. Every method raises ProviderTrouble."""

    def __init__(self, provider: Provider, *, clock: Clock, answer_s: float = ANSWER_S) -> None:
        self._provider = provider
        self._clock = clock
        self._answer_s = answer_s
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._metadata: tuple[int, Metadata] | None = None
        self._keys: tuple[int, KeySet] | None = None

    async def metadata(self) -> Metadata:
        """What the provider says about itself."""
        now = self._clock.now_ms()
        if self._metadata is None or now - self._metadata[0] > KEPT_MS:
            url = f"{self._provider.issuer.rstrip('/')}/.well-known/openid-configuration"
            _, body = await self._ask("GET", url)
            self._metadata = (now, metadata(body, self._provider))
        return self._metadata[1]

    async def claims(self, attempt: Attempt, code: str) -> Shown:
        """Exchanges a code. Raises SignInInvalid if the code does not count."""
        form, headers = token_request(self._provider, found := await self.metadata(), attempt, code)
        status, body = await self._ask("POST", found.token_endpoint, form=form, headers=headers, errors=True)
        try:
            tokens = _decode_tokens(body)
        except msgspec.MsgspecError as error:
            raise ProviderTrouble(f"The identity provider's token endpoint answered {status} and no JSON object.") from error
        if tokens.error == "invalid_grant":
            raise SignInInvalid("The identity provider does not accept this log-in any more. Log in again.")
        if status != 200 or not tokens.id_token:
            said = printable(f"{tokens.error} {tokens.error_description}"[:300]).strip() or "no ID token"
            raise ProviderTrouble(f"The identity provider's token endpoint answered {status}: {said}.")
        provider, now_s = self._provider, self._clock.now_ms() // 1000
        check = partial(verified, tokens.id_token, provider=provider, nonce=attempt.nonce, now_s=now_s)
        return Shown(await self._by_its_keys(check, "ID"), tokens.id_token, tokens.access_token)

    async def logged_out(self, token: str) -> LoggedOut:
        """What the provider's logout token says. Raises SignInInvalid."""
        check = partial(logged_out, token, provider=self._provider, now_s=self._clock.now_ms() // 1000)
        return await self._by_its_keys(check, "logout")

    async def userinfo(self, access_token: str) -> bytes | None:
        """What the provider says about the user besides; None if it has no such endpoint."""
        found = await self.metadata()
        if not found.userinfo_endpoint or not access_token:
            return None
        _, body = await self._ask("GET", found.userinfo_endpoint, headers={"authorization": f"Bearer {access_token}"})
        return body

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _by_its_keys(self, check: Callable[..., T], kind: str) -> T:
        """Tries again with new keys if the known ones do not fit: providers change their keys."""
        for again in (False, True):
            known = await self._known_keys(again=again)
            try:
                return check(known=known)
            except UnknownKey as error:
                why = str(error)
        raise ProviderTrouble(f"The {kind} token is not signed by a key of the identity provider: {why}")

    async def _known_keys(self, *, again: bool) -> KeySet:
        now = self._clock.now_ms()
        age_ms = KEPT_MS + 1 if self._keys is None else now - self._keys[0]
        if self._keys is None or age_ms > (FRESH_MS if again else KEPT_MS):
            _, body = await self._ask("GET", (await self.metadata()).jwks_uri)
            self._keys = (now, keys(body))
        return self._keys[1]

    async def _ask(
        self,
        method: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        errors: bool = False,
    ) -> tuple[int, bytes]:
        """Status and body. Redirects are not followed: they could lead into the server's own network."""
        sent = {"accept": "application/json", **(headers or {})}
        try:
            async with (
                asyncio.timeout(self._answer_s),
                self._slots,
                self._open().request(method, url, data=form, headers=sent, allow_redirects=False) as answer,
            ):
                body = b""
                while len(body) <= MOST_BYTES and (more := await answer.content.read(MOST_BYTES)):
                    body += more
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            said = printable(str(error)[:200]) or f"no answer within {self._answer_s:g} s"
            raise ProviderTrouble(
                f"The identity provider cannot be reached: {said}. Try again, or log in with a token."
            ) from error
        if len(body) > MOST_BYTES:
            raise ProviderTrouble(f"The identity provider's answer at {url} is larger than {MOST_BYTES} bytes.")
        if answer.status != 200 and not (errors and 400 <= answer.status < 500):
            raise ProviderTrouble(f"The identity provider answered {answer.status} at {url}. Try again, or log in with a token.")
        return answer.status, body

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), trust_env=True, skip_auto_headers=("User-Agent",)
            )
        return self._session
