"""The server of simulated agents that live in the server's process: the server itself."""

from __future__ import annotations

import asyncio

from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.node import AssignmentReply, StatusReply, StatusReport
from brickyard.providers.base import AgentApi, TransientError

PAUSE_S = 0.5  # while the server cannot use its database, which nodes survive


class ServerChanged(Exception):
    """Another server answers from now on. The agent must report its node to it."""


class AttachedServer:
    """The last attached server. Earlier ones have ended: calls that were waiting for them raise ServerChanged."""

    def __init__(self) -> None:
        self._server: AgentApi | None = None
        self._polls: set[asyncio.Future[AssignmentReply]] = set()

    def attach(self, server: AgentApi) -> None:
        """Makes this the server that agents call."""
        self._server = server
        for poll in self._polls:
            poll.cancel()

    async def report(self, report: StatusReport) -> StatusReply:
        while True:
            try:
                return await self._attached().report(report)
            except DatabaseTrouble:
                await asyncio.sleep(PAUSE_S)

    async def assignment(self, instance_id: str, have: int, wait_s: float) -> AssignmentReply:
        poll = asyncio.ensure_future(self._attached().assignment(instance_id, have, wait_s))
        self._polls.add(poll)
        try:
            return await poll
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the agent ends
            raise ServerChanged from None
        except DatabaseTrouble as error:
            await asyncio.sleep(PAUSE_S)
            raise ServerChanged from error
        finally:
            self._polls.discard(poll)

    def _attached(self) -> AgentApi:
        if self._server is None:
            raise TransientError("the simulated provider is not attached to a server yet")
        return self._server
