"""A simulated agent follows the assignment that it has, and none that it had."""

from __future__ import annotations

import asyncio

import pytest

from brickyard.domain.node import Assignment, AssignmentReply, NodeStatus, Phase, Poll, Role, StatusReply, StatusReport
from brickyard.providers.base import LaunchRequest
from brickyard.providers.simulated import Knobs, SimulatedProvider
from brickyard.testing.builders import SMALL
from tests.agent.world import assignment, preparation
from tests.support.patience import PATIENCE_S


class Quick:
    """A server that has the next assignment as soon as it is asked, as when a cluster takes what its pool has just got."""

    def __init__(self, *assignments: Assignment) -> None:
        self._next = list(assignments)
        self.statuses: list[NodeStatus] = []

    async def report(self, report: StatusReport) -> StatusReply:
        self.statuses.append(report.status)
        return StatusReply(server_token="server", known=True)

    async def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> AssignmentReply:
        if not self._next:
            await asyncio.Event().wait()
        return AssignmentReply(server_token="server", known=True, assignment=self._next.pop(0))

    async def poll(self, poll: Poll) -> AssignmentReply:
        return await self.assignment(poll.instance_id, poll.have, poll.wait)


@pytest.mark.parametrize("runtime", ["", "17.3.x-scala2.13"])
def test_an_instance_that_a_cluster_takes_at_once_joins_it(runtime: str) -> None:
    async def scenario() -> list[NodeStatus]:
        work = assignment(2, 2, role=Role.WORKER, master_url="spark://driver:7077")
        server = Quick(preparation(1, 1, runtime=runtime), work)
        provider = SimulatedProvider(node_types=[SMALL], knobs=Knobs(prepare_s=0.0, start_s=0.0, warm_start_s=0.0))
        provider.attach(server)
        request = LaunchRequest(instance_id="i-1", node_type=SMALL, server_url="", agent_token="a", server_token="s")
        provider.launch(request)
        async with asyncio.timeout(PATIENCE_S):
            while not any(each.worker_address for each in server.statuses):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        return server.statuses

    ready = [each for each in asyncio.run(scenario()) if each.phase is Phase.READY and each.generation == 2]
    assert all(each.worker_address for each in ready), "it is ready once it has joined"


@pytest.mark.parametrize("how", ["end", "gone"])
def test_instances_end_from_any_thread(how: str) -> None:
    """asyncio's debug mode (PYTHONDEVMODE=1) refuses what other threads do to a loop's tasks."""

    async def scenario() -> None:
        server = Quick()
        provider = SimulatedProvider(node_types=[SMALL])
        provider.attach(server)
        provider.launch(LaunchRequest(instance_id="i-1", node_type=SMALL, server_url="", agent_token="a", server_token="s"))
        before = asyncio.all_tasks()
        async with asyncio.timeout(PATIENCE_S):
            while not server.statuses:
                await asyncio.sleep(0.01)
        agents = asyncio.all_tasks() - before
        assert agents
        await asyncio.to_thread(provider.end if how == "end" else lambda: provider.gone("i-1"))
        assert not provider.observe()
        await asyncio.wait(agents, timeout=PATIENCE_S)
        assert all(each.done() for each in agents)

    asyncio.run(scenario(), debug=True)
