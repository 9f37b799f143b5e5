"""A server that dies at every step of create, resize, restart and terminate; the next one finishes the work. Agents live on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from brickyard.domain.nodetypes import NodeType
from brickyard.domain.states import State
from brickyard.providers.base import LaunchRequest, Observed, Provider
from brickyard.providers.simulated import SimulatedProvider
from brickyard.store.store import Store
from tests.reconcile.crashes import Crash, Fuse, FusedStore, end, first_of, killed_at_every_step
from tests.reconcile.world import World, check_books, provider


def fused(store: Store, provider: SimulatedProvider, fuse: Fuse, *, before: bool, **fields: Any) -> World:
    """A server whose loops' writes burn the fuse, before they take effect or after; it calls no provider once it has blown."""
    launch, terminate = provider.launch, provider.terminate

    def guarded(call: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any, **kwargs: Any) -> None:
            if fuse.blown.is_set():
                raise Crash
            call(*args, **kwargs)

        return run

    written: Any = FusedStore(store, fuse, before=before)
    return World(store, provider, called=_Guarded(provider, guarded(launch), guarded(terminate)), written=written, **fields)


class _Guarded(Provider):
    name = "simulated"

    def __init__(self, of: Provider, launch: Callable[..., None], terminate: Callable[..., None]) -> None:
        self._of, self._launch, self._terminate = of, launch, terminate

    def node_types(self) -> Sequence[NodeType]:
        return self._of.node_types()

    def launch(self, request: LaunchRequest) -> None:
        self._launch(request)

    def terminate(self, instance_id: str, *, reason: str) -> None:
        self._terminate(instance_id, reason=reason)

    def observe(self) -> Mapping[str, Observed]:
        return self._of.observe()


async def crash_and_recover(store: Store, act: str, steps: int, *, before: bool) -> bool:
    """Returns whether the crash came before the work was done."""
    simulated = provider()
    if act != "create":
        async with World(store, simulated).running() as calm:
            await calm.create("c", num_workers=2)
            await calm.wait("c", State.RUNNING)
    fuse = Fuse(steps)
    first = fused(store, simulated, fuse, before=before)
    simulated.attach(first.agents)
    tasks = [asyncio.create_task(first.loop.run()), asyncio.create_task(first.monitor.run())]
    doing: Callable[[], Any] = {
        "create": lambda: first.create("c", num_workers=2),
        "resize": lambda: first.resize("c", 3),
        "shrink": lambda: first.resize("c", 1),
        "restart": lambda: first.start("c"),
        "terminate": lambda: first.terminate("c"),
    }[act]
    await doing()
    goal = State.TERMINATED if act == "terminate" else State.RUNNING
    await first_of(fuse.blown.wait(), first.wait("c", goal))
    crashed = fuse.blown.is_set()
    await end(tasks)

    # A killed process commits nothing any more: what was under way is let through before the next one starts.
    await store.write(lambda tx: None)
    second = World(store, simulated)
    async with second.running():
        await second.wait("c", goal)
        size = {"create": 2, "resize": 3, "shrink": 1, "restart": 2, "terminate": 0}[act]
        while True:  # at rest: as many as wanted, and the record agrees with the provider
            found, nodes = await second.look("c")
            if len(simulated.observe()) == size + (goal is State.RUNNING) == len(nodes):
                break
            await asyncio.sleep(0.01)
        assert found is not None
        check_books(found, nodes, simulated.observe())
        assert len({node.instance_id for node in nodes}) == len(nodes)
    return crashed


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("act", ["create", "resize", "shrink", "restart", "terminate"])
def test_killed_at_every_step(tmp_path: Path, act: str, before: bool) -> None:
    async def crash_at(_: Path, store: Store, steps: int) -> bool:
        return await crash_and_recover(store, act, steps, before=before)

    killed_at_every_step(tmp_path, crash_at)
