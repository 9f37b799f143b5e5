"""Machines of a provider elsewhere that are cut off from the servers, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
import pytest

from brickyard.domain.cluster import Instance
from brickyard.domain.events import EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import AssignmentReply, Poll, Role, StatusReply, StatusReport
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.nodes.sessions import AgentService
from brickyard.providers.base import Observed
from brickyard.providers.simulated import SimulatedProvider
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL
from tests.reconcile.world import World
from tests.support.patience import PATIENCE_S

SILENCE_S = 4.0  # a machine with too much to do may stand still for more than a second; no other agent must count as lost then


class Wire:
    """Between agents and the servers. The calls of those that are cut off wait, as on a network that drops packets."""

    def __init__(self, server: AgentService) -> None:
        self._server = server
        self._back: dict[str, asyncio.Event] = {}
        self.last: dict[str, StatusReport] = {}

    def cut(self, instance_id: str) -> None:
        self._back[instance_id] = asyncio.Event()

    async def report(self, report: StatusReport) -> StatusReply:
        if (back := self._back.get(report.instance_id)) is not None:
            await back.wait()
        self.last[report.instance_id] = report
        return await self._server.report(report)

    async def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> AssignmentReply:
        if (back := self._back.get(instance_id)) is not None:
            await back.wait()
        return await self._server.assignment(instance_id, have, min(wait_s, 0.2), same=same)

    async def poll(self, poll: Poll) -> AssignmentReply:
        if (back := self._back.get(poll.instance_id)) is not None:
            await back.wait()
        return await self._server.poll(msgspec.structs.replace(poll, wait=min(poll.wait, 0.2)))


class Elsewhere(SimulatedProvider):
    """Its machines are on the other side of `wire`. It cannot end one that is cut off. `sees`: whether it still lists such ones,
    as an engine does that reaches them, or that has not noticed yet."""

    where = "elsewhere"
    ends_with_server = False

    def __init__(self, *, sees: bool) -> None:
        super().__init__(node_types=[SMALL])
        self.sees = sees
        self.away: set[str] = set()

    def observe(self) -> Mapping[str, Observed]:
        return {name: seen for name, seen in super().observe().items() if self.sees or name not in self.away}

    def terminate(self, instance_id: str, *, reason: str) -> None:
        if instance_id not in self.away:
            super().terminate(instance_id, reason=reason)


@pytest.mark.parametrize("sees", [True, False])
@pytest.mark.parametrize("role", [Role.DRIVER, Role.WORKER])
async def test_one_that_comes_back_after_its_node_was_replaced_is_told_to_end(store: Store, sees: bool, role: Role) -> None:
    elsewhere = Elsewhere(sees=sees)
    async with World(store, elsewhere, silence_s=SILENCE_S).running() as world:
        wire = Wire(world.agents)
        elsewhere.attach(wire)
        await world.create("c", num_workers=1)
        await world.wait("c", State.RUNNING)
        rows = {row.role: row for row in (await world.look("c"))[1]}
        lost = rows[role]
        before = wire.last[lost.instance_id]
        elsewhere.away.add(lost.instance_id)
        wire.cut(lost.instance_id)
        if role is Role.DRIVER:
            found = await world.wait("c", State.TERMINATING, State.TERMINATED)
            assert found.termination_reason is not None
            assert found.termination_reason.code is TerminationReasonCode.DRIVER_UNREACHABLE
        else:
            await world.wait_event("c", EventType.NODES_LOST)
            await world.wait("c", State.RUNNING)
        # It is back, and says what it said last: of its own it has noticed nothing.
        assert not (await world.agents.report(before)).known
        assert not (await world.agents.assignment(lost.instance_id, 0, 0)).known
        left = await recorded(world, lost)
        assert left is None or (left.state is not InstanceState.REGISTERED and not left.live)
        assert lost.instance_id not in {row.instance_id for row in (await world.look("c"))[1] if row.live}
        elsewhere.away.clear()  # the engine reaches it again: what nobody knows of, or nobody wants, ends
        await world.until(lambda: lost.instance_id not in SimulatedProvider.observe(elsewhere), PATIENCE_S)


async def recorded(world: World, of: Instance) -> Instance | None:
    return await world.store.read(lambda tx: tx.instances.get(of.instance_id))


async def test_one_that_was_away_for_a_moment_goes_on(store: Store) -> None:
    elsewhere = Elsewhere(sees=True)
    async with World(store, elsewhere, silence_s=30.0).running() as world:
        wire = Wire(world.agents)
        elsewhere.attach(wire)
        await world.create("c", num_workers=1)
        await world.wait("c", State.RUNNING)
        before = {row.instance_id for row in (await world.look("c"))[1]}
        for name in before:
            wire.cut(name)
        await asyncio.gather(world.monitor.run_once(), world.monitor.run_once())
        for name in before:
            assert (await world.agents.report(msgspec.structs.replace(wire.last[name]))).known
        assert {row.instance_id for row in (await world.look("c"))[1]} == before
