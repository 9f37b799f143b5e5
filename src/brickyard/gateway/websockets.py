"""Carries websockets between clients and a cluster's web servers, message by message, no faster than the other side reads.

The caller was authorised before the first byte, and is again from time to time: a websocket ends soon after its token is revoked
or the permission is withdrawn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from starlette.types import Receive, Send
from yarl import URL

from brickyard.api.edge.websockets import MESSAGE_BYTES, PING_S
from brickyard.domain.access import Principal
from brickyard.domain.errors import ApiError, PermissionDenied, QuotaExceeded, ResourceDoesNotExist, Unauthenticated
from brickyard.domain.quotas import Occupancy, Quota
from brickyard.nodes.ways import short

if TYPE_CHECKING:
    import aiohttp

CHECK_S = 3.0  # between two looks at whether the caller may still have it
CONNECT_S = 10.0  # for the cluster to accept
CLOSE_S = 2.0  # for the cluster to agree that it is closed
WEBSOCKETS = Quota("open websockets", total=2_000, share=64, reserve=200, admin_share=64)  # of one server
MAX_REASON = 120  # bytes; a close frame has room for 123
_FINE, _LEFT, _REFUSED, _FAILED = 1000, 1001, 1008, 1011
_NEVER_SENT = (1005, 1006, 1015)  # codes that only say how a websocket ended


class Unreachable(Exception):
    """The cluster's server does not answer."""


class Target(NamedTuple):
    """A web server of a cluster: its URL (http), the headers that it needs, and the Unix socket that leads to it if it is in a
    separate network."""

    url: URL
    headers: dict[str, str]
    way: str
    subprotocols: Sequence[str]


class Client(NamedTuple):
    """Whoever asked. `check` raises ApiError if they may no longer have the websocket."""

    user: Principal
    receive: Receive
    send: Send
    check: Callable[[], Awaitable[None]]


class _End(NamedTuple):
    """How it ended: the codes for the client, unless that has gone, and for the cluster."""

    client: int | None
    cluster: int
    reason: str = ""


class Websockets:
    """All that this server carries."""

    def __init__(self) -> None:
        self._open = Occupancy()

    async def carry(self, target: Target, client: Client) -> None:
        """Carries one until either side closes it. Before the client is answered it raises Unreachable and ApiError, and nothing
        afterwards."""
        with self._open.enter(WEBSOCKETS, client.user, error=QuotaExceeded):
            async with _session(target.way) as http, await _connect(http, target) as cluster:
                await client.send({"type": "websocket.accept", "subprotocol": cluster.protocol})
                end = await _between(client, cluster)
                # Each message that still comes would begin aiohttp's own time limit anew.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        await cluster.close(code=end.cluster)
                if end.client is not None:
                    await client.send({"type": "websocket.close", "code": end.client, "reason": _cut(end.reason)})


def _session(way: str) -> aiohttp.ClientSession:
    """One for each: a websocket holds its connection, and requests share theirs."""
    import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

    connector = aiohttp.UnixConnector(short(way)) if way else aiohttp.TCPConnector()
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


async def _connect(http: aiohttp.ClientSession, target: Target) -> aiohttp.ClientWebSocketResponse:
    import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

    try:
        async with asyncio.timeout(CONNECT_S):
            return await http.ws_connect(
                target.url,
                headers=target.headers,
                protocols=target.subprotocols,
                max_msg_size=MESSAGE_BYTES,
                heartbeat=PING_S,
            )
    except aiohttp.WSServerHandshakeError as error:
        raise ResourceDoesNotExist(
            f"The cluster has no websocket at {target.url.path[:500]}: it answered with status {error.status}."
        ) from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unreachable from error


async def _between(client: Client, cluster: aiohttp.ClientWebSocketResponse) -> _End:
    tasks = [asyncio.create_task(each) for each in (_up(client, cluster), _down(client, cluster), _watch(client))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return next(task for task in tasks if task in done).result()


async def _up(client: Client, cluster: aiohttp.ClientWebSocketResponse) -> _End:
    """What the client sends."""
    import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

    while (message := await client.receive())["type"] == "websocket.receive":
        try:
            if (data := message.get("bytes")) is not None:
                await cluster.send_bytes(data)
            else:
                await cluster.send_str(message["text"])
        except (aiohttp.ClientError, OSError):
            return _End(_FAILED, _FINE, "The cluster closed the connection.")
    return _End(None, _sent(message.get("code", _FINE), _LEFT))


async def _down(client: Client, cluster: aiohttp.ClientWebSocketResponse) -> _End:
    """What the cluster sends."""
    import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

    async for message in cluster:
        text = message.type is aiohttp.WSMsgType.TEXT
        try:
            await client.send({"type": "websocket.send", "text" if text else "bytes": message.data})
        except OSError:  # the client has gone
            return _End(None, _LEFT)
    code = cluster.close_code
    if code is None or code in _NEVER_SENT[1:]:
        return _End(_FAILED, _FINE, "The cluster closed the connection.")
    return _End(_sent(code, _FINE), _FINE)


async def _watch(client: Client) -> _End:
    """Ends when the caller may no longer have it. A database that is away ends nothing."""
    while True:
        await asyncio.sleep(CHECK_S)
        try:
            await client.check()
        except (Unauthenticated, PermissionDenied, ResourceDoesNotExist) as error:
            return _End(_REFUSED, _LEFT, error.message)
        except ApiError:
            continue


def _sent(code: int, instead: int) -> int:
    return instead if code in _NEVER_SENT else code


def _cut(reason: str) -> str:
    return reason.encode()[:MAX_REASON].decode(errors="ignore")
