"""Talks to the servers: status reports, the long poll for the assignment, and the watch for servers that stay silent.

While a server wants reports seldom, the poll is the heartbeat and brings the samples (`Poll`), and only changes are reported.

Any server of the workspace will do (`servers.py` decides which may be called). If one does not answer, or its answer lacks the
token that only servers of this workspace know, the agent tries another one at once.
"""

from __future__ import annotations

import asyncio
import hmac
import random
import time
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from brickyard.agent.clock import now_ms
from brickyard.agent.config import AgentConfig
from brickyard.agent.link.http import Client, HttpError
from brickyard.agent.link.owner import LinkedAgent
from brickyard.agent.link.servers import Servers
from brickyard.domain.decoding import Decoders
from brickyard.domain.node import (
    REPORT_S,
    AskNotebook,
    AskSecrets,
    AssignmentReply,
    NotebookReply,
    Poll,
    SecretsReply,
    StatusReply,
    StatusReport,
)
from brickyard.domain.packedsamples import packed
from brickyard.logs.bounded import LogFile
from brickyard.machine.tls import client_context

_REPLIES = Decoders(StatusReply, AssignmentReply, SecretsReply, NotebookReply)


COALESCE_S = 0.005  # changes of one moment go into one report
BURST = 40  # reports that may follow each other at once; if a node floods us, its reports are sent on slowly
POLL_S = 20.0  # if the server wants many reports; else as long as the next one may take
MOST_POLL_S = 50.0  # proxies cut off connections on which nothing happens for a minute
TIMEOUT_S = 12.0  # a server reports after 10 s that its database hangs
QUICK_S = 3.0  # for an answer, if other servers can be asked and have answered recently
BACKOFF_S = (0.1, 2.0)

_Reply = TypeVar("_Reply", StatusReply, AssignmentReply, SecretsReply, NotebookReply)
_UsersReply = TypeVar("_UsersReply", SecretsReply, NotebookReply)


class _Unreachable(Exception):
    """None of our servers answered; the message says what happened instead."""


class Proof(msgspec.Struct):
    """The token that every answer of our server carries, even an error."""

    server_token: str = ""


_decode_proof = msgspec.json.Decoder(Proof).decode


class ServerLink:
    """The three loops."""

    def __init__(self, *, config: AgentConfig, agent: LinkedAgent, log: LogFile) -> None:
        self._config = config
        self._agent = agent
        self._log = log
        self._changed = asyncio.Event()
        self._heard = time.monotonic()
        self._reachable = True
        self._allowance = float(BURST)
        self._servers = Servers(config)
        self._trust = client_context(config.server_ca) if config.encrypted else None
        self._poll: asyncio.Timeout | None = None  # for the long poll in progress
        self._report_s = REPORT_S  # how long a report that says nothing new may wait

    def wake(self) -> None:
        """Tells the report loop that the status has changed."""
        self._changed.set()

    def sampled(self) -> None:
        """Tells the report loop that there is a new sample."""
        if not self._rests:
            self.wake()

    @property
    def _rests(self) -> bool:
        """Whether the poll is the heartbeat."""
        return self._report_s > REPORT_S

    def _report_within(self, seconds: float) -> None:
        """The server has said how often it wants reports. If that is more often than before, it waits for one."""
        sooner, self._report_s = seconds < self._report_s, self._pause_s(seconds)
        if sooner:
            self.wake()

    def _pause_s(self, seconds: float) -> float:
        """So that the server is not taken for gone because of one report."""
        return min(seconds, max(REPORT_S, self._config.orphan_grace_s / 4))

    async def report(self) -> None:
        """Sends the status immediately when it changes, and otherwise as a heartbeat, unless the poll is that."""
        client = Client(self._trust)
        failures = 0
        while True:
            self._changed.clear()
            report = self._agent.report()
            try:
                reply = await self._ask(client, "POST", "/agent/v1/status", StatusReply, report=report, patient=failures > 0)
            except _Unreachable as error:
                self._lost(error)
                failures += 1
                await asyncio.sleep(backoff(failures))
                continue
            failures = 0
            if not reply.known:
                self._agent.leave("the server does not know this instance")
                return
            self._agent.samples_taken(report.samples, again=reply.samples_again)
            self._report_s = self._pause_s(reply.report_s)
            if reply.move_to is not None:
                self._servers.send_to(reply.move_to)
            if reply.move_to is not None or reply.samples_again:
                self.wake()
            await self._next_report()

    async def _next_report(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(None if self._rests else self._report_s):
                await self._changed.wait()
        except TimeoutError:
            pass
        else:
            await asyncio.sleep(COALESCE_S if self._allowance >= 1 else 0.5)
        self._allowance = min(BURST, self._allowance + (time.monotonic() - began) * 4) - 1

    async def follow(self) -> None:
        """Polls for the assignment forever. Has the agent leave if the server does not know this instance."""
        client = Client(self._trust)
        have = failures = 0
        while True:
            wait_s = min(self._report_s, MOST_POLL_S) if self._rests else POLL_S
            samples = self._agent.report().samples if self._rests else None
            brought = packed(samples) if samples is not None else None
            poll = Poll(instance_id=self._config.instance_id, have=have, wait=wait_s, samples=brought, now_ms=now_ms())
            began = time.monotonic()
            try:
                reply = await self._polled(client, poll, brings=self._rests)
            except _Unreachable as error:
                self._lost(error)
                failures += 1
                await asyncio.sleep(backoff(failures))
                continue
            failures = 0
            if reply is None:
                continue
            if not reply.known:
                self._agent.leave("the server does not know this instance")
                return
            if reply.unheard:
                self.wake()
            else:
                self._agent.samples_taken(samples, again=reply.samples_again)
            version = have if reply.same else reply.assignment.version if reply.assignment is not None else 0
            if not reply.same:
                self._agent.assign(reply.assignment)
            self._report_within(reply.report_s)
            if version == have and time.monotonic() - began < 0.2:
                await asyncio.sleep(0.2)  # avoids a busy loop with a server that does not hold the poll
            have = version

    async def _polled(self, client: Client, poll: Poll, *, brings: bool) -> AssignmentReply | None:
        """Returns the answer to a long poll, or None if reports have moved to another server, which must then be polled
        instead. `brings`: whether it is the heartbeat."""
        timeout_s = poll.wait + TIMEOUT_S
        query = urlencode({"instance_id": poll.instance_id, "have": poll.have, "wait": int(poll.wait), "same": "true"})
        try:
            async with asyncio.timeout(None) as self._poll:
                if brings:
                    body = msgspec.json.encode(poll)
                    return await self._ask(client, "POST", "/agent/v1/poll", AssignmentReply, body=body, timeout_s=timeout_s)
                return await self._ask(client, "GET", f"/agent/v1/assignment?{query}", AssignmentReply, timeout_s=timeout_s)
        except TimeoutError:
            return None
        finally:
            self._poll = None

    async def watch(self) -> None:
        """Has the agent leave after hearing nothing for the grace period. Time during which the machine slept does not count."""
        grace = self._config.orphan_grace_s
        while (silence := time.monotonic() - self._heard) < grace:  # noqa: ASYNC110 - waits for a time, not for an event
            await asyncio.sleep(min(grace - silence + 0.01, 5.0))
        self._agent.leave(f"nothing was heard of the server for {silence:.0f} s (orphan_grace_s is {grace:g})")

    async def ask(self, asked: AskSecrets) -> SecretsReply:
        """Asks a server for secrets. Never raises: an error is a reply."""
        return await self._ask_for_user("/agent/v1/secrets", SecretsReply, asked, to="read secrets")

    async def read_notebook(self, asked: AskNotebook) -> NotebookReply:
        """Asks a server for a notebook. Never raises: an error is a reply."""
        return await self._ask_for_user("/agent/v1/notebooks", NotebookReply, asked, to="read the notebook")

    async def _ask_for_user(self, path: str, kind: type[_UsersReply], asked: AskSecrets | AskNotebook, *, to: str) -> _UsersReply:
        client = Client(self._trust)
        try:
            return await self._ask(client, "POST", path, kind, body=msgspec.json.encode(asked))
        except _Unreachable:
            text = f"no server of the workspace can be reached to {to}. Repeat the call."
            return kind(server_token="", error_code="TEMPORARILY_UNAVAILABLE", message=text)
        finally:
            client.close()

    async def _ask(
        self,
        client: Client,
        method: str,
        path: str,
        kind: type[_Reply],
        *,
        report: StatusReport | None = None,
        body: bytes = b"",
        timeout_s: float = TIMEOUT_S,
        patient: bool = True,
    ) -> _Reply:
        """Makes one exchange with the first of our servers that answers. Raises _Unreachable."""
        problem = _Unreachable("no server of this workspace is running")
        urls = self._servers.candidates(moving=report is not None)
        for url in urls:
            if report is not None:
                body = msgspec.json.encode(msgspec.structs.replace(report, moves=self._servers.reporting_to(url)))
            limit_s = timeout_s if patient or len(urls) == 1 else QUICK_S
            try:
                reply = await self._exchange(client, method, url, path, kind, body=body, timeout_s=limit_s)
            except _Unreachable as error:
                client.close()
                problem = error
                continue
            self._found(url, polling=kind is AssignmentReply, reporting=report is not None)
            self._servers.told(reply.servers)
            return reply
        client.close()
        raise problem

    async def _exchange(
        self, client: Client, method: str, url: str, path: str, kind: type[_Reply], *, body: bytes, timeout_s: float
    ) -> _Reply:
        """Makes one exchange with the server at `url`. Raises _Unreachable."""
        try:
            response = await client.request(
                method,
                url + path,
                bearer=self._config.agent_token,
                body=body,
                timeout_s=timeout_s,
                may_connect=lambda: url in self._servers.candidates(),
            )
            proof = _decode_proof(response.body)
            ours = hmac.compare_digest(proof.server_token.encode(), self._config.server_token.encode())
            if ours:  # counts as heard even if the server cannot use its database now, however long that takes
                self._heard = time.monotonic()
            if response.status != 200:
                raise _Unreachable(f"{url} answered {response.status}")
            reply = _REPLIES.decode(response.body, kind)
        except (HttpError, msgspec.MsgspecError) as error:
            raise _Unreachable(f"{url}: {error}") from error
        if not ours:
            raise _Unreachable(f"what answers at {url} is not the server of this workspace")
        return reply

    def _found(self, url: str, *, polling: bool, reporting: bool) -> None:
        """A server has answered. Gives up a poll that still waits for another server, since that one may hang."""
        moved = self._servers.answered(url, moving=reporting)
        if not self._reachable:
            self._log.write(f"the server is back at {url}")
            self.wake()  # it may have been started anew, and know nothing of what was reported before
        elif moved:
            self._log.write(f"turning to the server at {url}")
        self._reachable = True
        if moved and polling:
            self.wake()  # the new server must hear from us as well
        elif moved and self._poll is not None and not self._poll.expired():
            self._poll.reschedule(asyncio.get_running_loop().time())

    def _lost(self, error: _Unreachable) -> None:
        if self._reachable:
            self._log.write(f"the server cannot be reached: {error}")
        self._reachable = False


def backoff(failures: int) -> float:
    """Seconds to wait after that many failures in a row, the first being 1."""
    first, last = BACKOFF_S
    return min(last, first * 2.0 ** min(failures - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
