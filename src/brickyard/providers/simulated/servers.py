"""The server of simulated agents that live in the server's process: the server itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.node import AssignmentReply, Poll, StatusReply, StatusReport
from brickyard.providers.base import AgentApi, LaunchRequest, TransientError

DOMAIN = ".simulated.invalid"
PAUSE_S = 0.5  # while the server cannot use its database, which nodes survive


class ServerChanged(Exception):
    """Another server answers from now on. The agent must report its node to it."""


class AttachedServer:
    """The last attached server. Earlier ones have ended: calls that were waiting for them raise ServerChanged."""

    def __init__(self) -> None:
        self._server: AgentApi | None = None
        self._polling: set[asyncio.Task[Any]] = set()  # agents that wait for an answer
        self._moving: set[asyncio.Task[Any]] = set()  # those that are to ask another server

    def attach(self, server: AgentApi) -> None:
        """Makes this the server that agents call."""
        self._server = server
        self._moving |= self._polling
        for agent in self._polling:
            agent.cancel()

    def server_of(self, request: LaunchRequest) -> AttachedServer:
        return self

    def endpoint_of(self, instance_id: str) -> str:
        return f"http://{instance_id}{DOMAIN}"

    async def report(self, report: StatusReport) -> StatusReply:
        while True:
            try:
                return await self._attached().report(report)
            except DatabaseTrouble:
                await asyncio.sleep(PAUSE_S)

    def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> Awaitable[AssignmentReply]:
        return self._answer(self._attached().assignment(instance_id, have, wait_s, same=same))

    def poll(self, poll: Poll) -> Awaitable[AssignmentReply]:
        return self._answer(self._attached().poll(poll))

    async def _answer(self, asked: Awaitable[AssignmentReply]) -> AssignmentReply:
        """In the agent's own task: one more for each poll would be much, with thousands of agents."""
        agent = asyncio.current_task()
        assert agent is not None  # noqa: S101 - a coroutine runs in a task
        self._polling.add(agent)
        try:
            return await asked
        except asyncio.CancelledError:
            if agent not in self._moving or agent.uncancel():
                raise  # the agent ends
            raise ServerChanged from None
        except DatabaseTrouble as error:
            await asyncio.sleep(PAUSE_S)
            raise ServerChanged from error
        finally:
            self._polling.discard(agent)
            self._moving.discard(agent)

    def _attached(self) -> AgentApi:
        if self._server is None:
            raise TransientError("the simulated provider is not attached to a server yet")
        return self._server
