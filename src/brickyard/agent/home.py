"""Calling home: status reports, the long poll for the assignment, and the watch for a server that is never heard again.

Our token goes to the server only. Ports are shared with the nodes, so a dead server's port may be taken by anybody: where
`server_file` names the server's process, nothing is sent unless that process lives, and no answer counts that does not carry
the token which only the server of this workspace knows.
"""

from __future__ import annotations

import asyncio
import hmac
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from brickyard.agent import processes
from brickyard.agent.config import AgentConfig
from brickyard.agent.http import Client, HttpError
from brickyard.agent.log import LogFile
from brickyard.domain.node import Assignment, AssignmentReply, StatusReply, StatusReport

HEARTBEAT_S = 5.0
COALESCE_S = 0.02
BURST = 40  # reports that may follow each other at once; a node that floods us is passed on slowly
POLL_S = 20.0
TIMEOUT_S = 10.0
BACKOFF_S = (0.1, 2.0)

_Reply = TypeVar("_Reply", StatusReply, AssignmentReply)


class _Unreachable(Exception):
    """Our server did not answer; the message says what happened instead."""


class _Proof(msgspec.Struct):
    """What every answer of our own server carries, also one that says why it cannot tell more now."""

    server_token: str = ""


class _ServerFile(msgspec.Struct):
    pid: int
    url: str


class Home:
    """The three loops. `on_assignment` gets every answer's assignment, `on_leave` a reason why the agent has to go."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        report: Callable[[], StatusReport],
        on_assignment: Callable[[Assignment | None], None],
        on_leave: Callable[[str], None],
        log: LogFile,
    ) -> None:
        self._config = config
        self._report = report
        self._on_assignment = on_assignment
        self._on_leave = on_leave
        self._log = log
        self._changed = asyncio.Event()
        self._heard = time.monotonic()
        self._reachable = True
        self._allowance = float(BURST)

    def wake(self) -> None:
        """The status has changed."""
        self._changed.set()

    async def report(self) -> None:
        """Send the status at once when it changes, and as a heartbeat."""
        client = Client()
        failures = 0
        while True:
            self._changed.clear()
            body = msgspec.json.encode(self._report())
            try:
                reply = await self._ask(client, "POST", "/agent/v1/status", StatusReply, body=body)
            except _Unreachable as error:
                self._lost(error)
                failures += 1
                await asyncio.sleep(_backoff(failures))
                continue
            failures = 0
            if not reply.known:
                self._on_leave("the server does not know this instance")
                return
            await self._next_report()

    async def _next_report(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self._changed.wait()
        except TimeoutError:
            pass
        else:
            await asyncio.sleep(COALESCE_S if self._allowance >= 1 else 0.5)
        self._allowance = min(BURST, self._allowance + (time.monotonic() - began) * 4) - 1

    async def follow(self) -> None:
        """Ask for the assignment for ever. A report that the server did not know us ends in `on_leave`."""
        client = Client()
        have = failures = 0
        while True:
            query = urlencode({"instance_id": self._config.instance_id, "have": have, "wait": int(POLL_S)})
            began = time.monotonic()
            try:
                path = f"/agent/v1/assignment?{query}"
                reply = await self._ask(client, "GET", path, AssignmentReply, timeout_s=POLL_S + TIMEOUT_S)
            except _Unreachable as error:
                self._lost(error)
                failures += 1
                await asyncio.sleep(_backoff(failures))
                continue
            failures = 0
            if not reply.known:
                self._on_leave("the server does not know this instance")
                return
            version = reply.assignment.version if reply.assignment is not None else 0
            self._on_assignment(reply.assignment)
            if version == have and time.monotonic() - began < 0.2:
                await asyncio.sleep(0.2)  # a server that does not hold the poll must not be asked in a circle
            have = version

    async def watch(self) -> None:
        """Leave when nothing was heard for the grace period. A machine that slept does not count the time."""
        grace = self._config.orphan_grace_s
        while (silence := time.monotonic() - self._heard) < grace:  # noqa: ASYNC110 - a time is awaited, not an event
            await asyncio.sleep(min(grace - silence + 0.01, 5.0))
        self._on_leave(f"nothing was heard of the server for {silence:.0f} s (orphan_grace_s is {grace:g})")

    async def _ask(
        self, client: Client, method: str, path: str, kind: type[_Reply], *, body: bytes = b"", timeout_s: float = TIMEOUT_S
    ) -> _Reply:
        """One exchange with our own server. Raises _Unreachable."""
        url = server_url(self._config)
        if url is None:
            client.close()
            raise _Unreachable("no server of this workspace is running")
        try:
            response = await client.request(
                method, url.rstrip("/") + path, bearer=self._config.agent_token, body=body, timeout_s=timeout_s
            )
            proof = msgspec.json.decode(response.body, type=_Proof)
            ours = hmac.compare_digest(proof.server_token.encode(), self._config.server_token.encode())
            if ours:  # heard of, also where it cannot use its database now: that takes as long as it takes
                self._heard = time.monotonic()
            if response.status != 200:
                raise _Unreachable(f"{url} answered {response.status}")
            reply = msgspec.json.decode(response.body, type=kind)
        except (HttpError, msgspec.MsgspecError) as error:
            raise _Unreachable(f"{url}: {error}") from error
        if not ours:
            client.close()
            raise _Unreachable(f"what answers at {url} is not the server of this workspace")
        if not self._reachable:
            self._log.write(f"the server is back at {url}")
        self._reachable = True
        return reply

    def _lost(self, error: _Unreachable) -> None:
        if self._reachable:
            self._log.write(f"the server cannot be reached: {error}")
        self._reachable = False


def server_url(config: AgentConfig) -> str | None:
    """Where to call now. None: there is no server that may be trusted with our token."""
    if not config.server_file:
        return config.server_url
    try:
        found = msgspec.json.decode(Path(config.server_file).read_bytes(), type=_ServerFile)
    except (OSError, msgspec.MsgspecError):
        return None
    return found.url if processes.find(found.pid) is not None else None


def _backoff(failures: int) -> float:
    first, last = BACKOFF_S
    return min(last, first * 2.0 ** min(failures - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
