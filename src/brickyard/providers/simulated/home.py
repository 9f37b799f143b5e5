"""What simulated agents call when they live in the server's process: the server itself."""

from __future__ import annotations

import asyncio

from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.node import AssignmentReply, StatusReply, StatusReport
from brickyard.providers.base import Home, TransientError

PAUSE_S = 0.5  # while the server cannot use its database, which nodes outlive


class HomeMoved(Exception):
    """Another server answers from now on. It must be told what the node is."""


class AttachedHome:
    """The server that was attached last. Its predecessors have ended: what they were asked raises HomeMoved."""

    def __init__(self) -> None:
        self._home: Home | None = None
        self._polls: set[asyncio.Future[AssignmentReply]] = set()

    def attach(self, home: Home) -> None:
        """From now on this one is asked."""
        self._home = home
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
            raise HomeMoved from None
        except DatabaseTrouble as error:
            await asyncio.sleep(PAUSE_S)
            raise HomeMoved from error
        finally:
            self._polls.discard(poll)

    def _attached(self) -> Home:
        if self._home is None:
            raise TransientError("the simulated provider is not attached to a server yet")
        return self._home
