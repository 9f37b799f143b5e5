"""The HTTP client for agents (`agent/link/server.py`): JSON, authenticated with each instance's token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from brickyard.domain.endpoints import Endpoint, parse
from brickyard.domain.nodeops import AgentClient, AgentRefused, AgentUnreachable
from brickyard.domain.tracing import Tracing

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


if TYPE_CHECKING:
    import aiohttp

CALL_TIMEOUT_S = 40.0  # longer than the agent's own limit for a call to its node host
CONNECT_TIMEOUT_S = 5.0
MOST_PINS = 10_000


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _Refusal(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


_decode_refusal = msgspec.json.Decoder(_Refusal).decode


class HttpAgentClient(AgentClient):
    """The HTTP implementation: one connection pool, created at the first call. `pinned`: agents are on other machines, and only
    those whose certificate is known are called."""

    def __init__(self, *, pinned: bool = False, tracing: Tracing | None = None) -> None:
        self._pinned = pinned
        self._tracing = tracing
        self._pins: dict[str, aiohttp.Fingerprint] = {}
        self._session: aiohttp.ClientSession | None = None

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        import aiohttp  # noqa: PLC0415 - a fifth of a server's start, and many servers never call a node

        where = self._where(endpoint)
        headers = {"Authorization": f"Bearer {server_token}", "Content-Type": "application/json"}
        if self._tracing is not None and (traceparent := self._tracing.traceparent()):
            headers["traceparent"] = traceparent
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with self._open().request(
                method, where.url + path, data=data, headers=headers, ssl=self._pin(where), allow_redirects=False
            ) as response:
                answer = await response.read()
        except aiohttp.ServerFingerprintMismatch as error:
            raise AgentUnreachable(
                f"what answers at {where.url} is not the agent: it has another certificate", sent=False
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise AgentUnreachable(f"cannot connect to {where.url}: {error.os_error}", sent=False) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise AgentUnreachable(f"cannot connect to {where.url} within {CONNECT_TIMEOUT_S:.0f} s", sent=False) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise AgentUnreachable(f"{where.url} did not answer: {str(error) or type(error).__name__}", sent=True) from error
        return _decode(response.status, answer)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _where(self, endpoint: str) -> Endpoint:
        try:
            where = parse(endpoint)
        except ValueError as error:
            raise AgentUnreachable(str(error), sent=False) from error
        if self._pinned and not where.fingerprint:
            raise AgentUnreachable(f"the agent at {where.url} speaks without TLS", sent=False)
        return where

    def _pin(self, where: Endpoint) -> aiohttp.Fingerprint | bool:
        """The only certificate that counts there. The same object each time: connections are kept by it."""
        import aiohttp  # noqa: PLC0415 - as above

        if not where.fingerprint:
            return True
        if where.fingerprint not in self._pins and len(self._pins) >= MOST_PINS:
            self._pins.clear()
        return self._pins.setdefault(where.fingerprint, aiohttp.Fingerprint(bytes.fromhex(where.fingerprint)))

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # noqa: PLC0415 - as above

            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S),
                connector=aiohttp.TCPConnector(limit=0, limit_per_host=32, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                skip_auto_headers=("User-Agent",),
            )
        return self._session


def _decode(status: int, answer: bytes) -> dict[str, Any]:
    """The answer's object. Raises AgentUnreachable for 503 and AgentRefused for every other error."""
    try:
        if status < 300:
            return _decode_object(answer or b"{}")
        refusal = _decode_refusal(answer).error
    except msgspec.MsgspecError as error:
        raise AgentRefused("PROTOCOL", f"the agent's answer (status {status}) cannot be read: {error}") from error
    if status == 503:
        # With NO_NODE nothing was done yet; TIMEOUT may have come in the middle.
        raise AgentUnreachable(refusal.message, sent=refusal.code != "NO_NODE")
    raise AgentRefused(refusal.code, refusal.message)
