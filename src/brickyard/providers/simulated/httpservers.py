"""The server of simulated agents whose world is a separate process: the workspace's servers over HTTP, as for real agents."""

from __future__ import annotations

import asyncio
import hmac
import random
import time
from collections.abc import Awaitable, Iterable
from typing import Protocol, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from brickyard.agent.link.serverlink import Proof, backoff
from brickyard.domain.decoding import Decoders
from brickyard.domain.node import AssignmentReply, Poll, ServerAddress, StatusReply, StatusReport
from brickyard.providers.base import LaunchRequest
from brickyard.providers.simulated.servers import ServerChanged

_REPLIES = Decoders(StatusReply, AssignmentReply)


_decode_proof = msgspec.json.Decoder(Proof).decode


POLL_S = 10.0  # where there are other servers: the only way to notice one that hangs
ANSWER_S = 5.0  # how long a server may take to answer, beyond the time it was asked to wait
CONNECT_S = 3.0
REPORTS = 64  # at a time to one server: each takes a connection, and a server allows one peer only so many

_Reply = TypeVar("_Reply", StatusReply, AssignmentReply)


class KnownServers(Protocol):
    """The servers that use the world, as its process knows them."""

    def urls(self) -> set[str]:
        """Where agents find the living servers."""
        ...

    def heard(self) -> None:
        """Records that some server has answered as one of the workspace."""
        ...


class Line:
    """The connections of all agents, and the known servers. Create it on the world's event loop."""

    def __init__(self, servers: KnownServers) -> None:
        """`servers`: the known ones besides those that answers name."""
        self._servers = servers
        self._named: set[str] = set()
        self._reports = _session(limit_per_host=REPORTS)
        self._polls = _session(limit_per_host=0)

    async def close(self) -> None:
        await self._reports.close()
        await self._polls.close()

    def told(self, servers: Iterable[ServerAddress]) -> None:
        """Records the workspace's current servers."""
        self._named = {server.url for server in servers} or self._named

    def other_than(self, url: str) -> str:
        """Another server's address, or `url` itself if none is known."""
        others = (self._servers.urls() | self._named) - {url}
        return random.choice(sorted(others)) if others else url  # noqa: S311 - spreads load, guards nothing

    async def ask(
        self, method: str, url: str, request: LaunchRequest, kind: type[_Reply], *, body: bytes = b"", wait_s: float = 0.0
    ) -> _Reply | None:
        """One call of an instance's agent to a server. Returns None if it does not answer as the workspace's own server would."""
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_S, sock_read=wait_s + ANSWER_S)
        headers = {"Authorization": f"Bearer {request.agent_token}", "Content-Type": "application/json"}
        session = self._polls if wait_s else self._reports
        try:
            async with session.request(method, url, data=body or None, headers=headers, timeout=timeout) as response:
                answer = await response.read()
            proof = _decode_proof(answer)
            if not hmac.compare_digest(proof.server_token.encode(), request.server_token.encode()):
                return None
            self._servers.heard()
            if response.status != 200:
                return None
            reply = _REPLIES.decode(answer, kind)
            self.told(reply.servers)
        except (aiohttp.ClientError, OSError, msgspec.MsgspecError):  # TimeoutError is an OSError
            return None
        return reply


def _session(*, limit_per_host: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, limit_per_host=limit_per_host, keepalive_timeout=30),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        skip_auto_headers=("User-Agent", "Accept-Encoding"),
    )


class HttpServers:
    """For one agent: the server that launched it, and another server whenever that one does not answer."""

    def __init__(self, request: LaunchRequest, line: Line) -> None:
        self._request = request
        self._line = line
        line.told(request.servers)
        self._url = request.server_url.rstrip("/")
        self._failures = 0
        self._moves = 0

    async def report(self, report: StatusReport) -> StatusReply:
        """Sends the report repeatedly until a server accepts it."""
        while True:
            server = self._url
            body = msgspec.json.encode(msgspec.structs.replace(report, moves=self._moves))
            reply = await self._line.ask("POST", f"{server}/agent/v1/status", self._request, StatusReply, body=body)
            if reply is not None:
                self._failures = 0
                if reply.move_to is not None and self._url == server:
                    self._url = reply.move_to.url
                    self._moves += 1
                return reply
            await self._leave(server)

    async def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> AssignmentReply:
        server, began = self._url, time.monotonic()
        wait_s = wait_s if self._line.other_than(server) == server else min(wait_s, POLL_S)
        asked = {"instance_id": instance_id, "have": have, "wait": int(wait_s), **({"same": "true"} if same else {})}
        url = f"{server}/agent/v1/assignment?{urlencode(asked)}"
        asking = self._line.ask("GET", url, self._request, AssignmentReply, wait_s=wait_s)
        return await self._polled(asking, server, have, began)

    async def poll(self, poll: Poll) -> AssignmentReply:
        server, began, have = self._url, time.monotonic(), poll.have
        url, body = f"{server}/agent/v1/poll", msgspec.json.encode(poll)
        asking = self._line.ask("POST", url, self._request, AssignmentReply, body=body, wait_s=poll.wait)
        del poll, body
        return await self._polled(asking, server, have, began)

    async def _polled(self, asking: Awaitable[AssignmentReply | None], server: str, have: int, began: float) -> AssignmentReply:
        reply = await asking
        if reply is None:
            await self._leave(server)
            raise ServerChanged
        self._failures = 0
        version = have if reply.same else reply.assignment.version if reply.assignment is not None else 0
        if version == have and reply.known and time.monotonic() - began < 0.2:
            await asyncio.sleep(0.2)  # the server does not hold the poll, because it is about to stop
        return reply

    async def _leave(self, server: str) -> None:
        """Switches to another server at once; if that does not answer either, to the next one after a pause."""
        if self._url == server:
            self._url = self._line.other_than(server)
            self._moves += self._url != server
        if self._failures or self._url == server:
            await asyncio.sleep(backoff(self._failures + 1))
        self._failures += 1
