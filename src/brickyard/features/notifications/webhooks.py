"""Posts to the URLs of destinations, which may be down, slow or hostile.

No redirect is followed, an answer is read as far as a few KiB, and only public addresses are connected to, or those in the
networks of the setting notification_networks. The address is checked that is connected to: a name that resolves to another one
the second time gains nothing. Proxies of the environment are not used, since they would resolve names by themselves.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from brickyard.domain.printable import printable
from brickyard.features.notifications.model import Undelivered
from brickyard.machine.outbound import Network, forbidden, is_own

ANSWER_S = 5.0  # for a whole attempt
MOST_BYTES = 4096  # of an answer
MOST_AT_ONCE = 32


class WebhookSender:
    """For one event loop. Call `close` when done."""

    def __init__(self, *, allowed: Sequence[Network], answer_s: float = ANSWER_S) -> None:
        self._allowed = allowed
        self._answer_s = answer_s
        self._sessions: dict[str, aiohttp.ClientSession] = {}  # by scheme

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Posts a JSON body. Raises Undelivered unless the answer is 2xx."""
        target = URL(url)
        sent = {"Content-Type": "application/json", "User-Agent": "Brickyard", **headers}
        try:
            if _is_address(target.host or ""):
                _check(target.host or "", target.scheme, self._allowed)
            async with (
                asyncio.timeout(self._answer_s),
                self._open(target.scheme).post(target, data=body, headers=sent, allow_redirects=False) as answer,
            ):
                await answer.content.read(MOST_BYTES)
                status = answer.status
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise Undelivered(_said(error) or f"no answer within {self._answer_s:g} s") from error
        if not 200 <= status < 300:
            why = ", and redirects are not followed" if 300 <= status < 400 else ""
            raise Undelivered(f"the answer was {status}{why}")

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for each in sessions.values():
            await each.close()

    def _open(self, scheme: str) -> aiohttp.ClientSession:
        if scheme not in self._sessions:
            resolver = _Guarded(scheme, self._allowed)
            connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True, limit=MOST_AT_ONCE)
            self._sessions[scheme] = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
            )
        return self._sessions[scheme]


class _Guarded(AbstractResolver):
    """Resolves names to the addresses that may be connected to."""

    def __init__(self, scheme: str, allowed: Sequence[Network]) -> None:
        self._scheme = scheme
        self._allowed = allowed
        self._plain = aiohttp.ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        found = await self._plain.resolve(host, port, family)
        for each in found:
            _check(each["host"], self._scheme, self._allowed)
        return found

    async def close(self) -> None:
        await self._plain.close()


def _check(address: str, scheme: str, allowed: Sequence[Network]) -> None:
    """Raises OSError unless the address may be connected to."""
    if why := forbidden(address, allowed):
        raise OSError(f"{address} is not allowed: {why}. See the setting notification_networks")
    if scheme != "https" and not is_own(address, allowed):
        raise OSError("http is allowed in notification_networks only: use https")


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _said(error: Exception) -> str:
    cause: Any = getattr(error, "os_error", None) or error
    return printable(str(cause)[:300])
