"""A server that dies at every step of a run; the next one finishes it, and no task ever begins twice.

As in `test_crashes.py`, a crash is played by a store and drivers that let exactly N of the run loop's calls through and then
never answer again, before or after the call took effect. Instances, drivers and what runs on them live on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brickyard.domain.run import RunResultState
from brickyard.domain.runviews import RunId
from brickyard.store.store import Store
from tests.reconcile.runworld import ADMIN, RunWorld, task
from tests.reconcile.test_crashes import Fuse
from tests.reconcile.world import provider

AT_ONCE = 16  # servers that die side by side: most of their time is waiting


class FusedStore:
    """Burns the fuse with every write."""

    def __init__(self, store: Store, fuse: Fuse, *, before: bool) -> None:
        self.read, self._write, self._fuse, self._before = store.read, store.write, fuse, before

    async def write(self, work: Callable[[Any], Any], *, background: bool = False) -> Any:
        if self._before:
            self._fuse.step()
        result = await self._write(work, background=background)
        if not self._before:
            self._fuse.step()
        return result


class FusedNodes:
    """Burns it with every call to a driver."""

    def __init__(self, nodes: Any, fuse: Fuse, *, before: bool) -> None:
        self._nodes, self._fuse, self._before = nodes, fuse, before

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        async def call(about: Any) -> Any:
            if self._before:
                self._fuse.step()
            answer = await getattr(self._nodes, name)(about)
            if not self._before:
                self._fuse.step()
            return answer

        return call


async def crash_and_recover(root: Path, store: Store, steps: int, *, before: bool, cancel: bool) -> bool:
    """Returns whether the crash came before the run was over."""
    simulated = provider()
    first, fuse = RunWorld(store, simulated, root), Fuse(steps)
    first.file("a", "one")
    first.file("b", "slow" if cancel else "two")
    first.runs._store = FusedStore(store, fuse, before=before)  # type: ignore[assignment] # a test's stand-in
    first.runs._nodes = FusedNodes(first.runs._nodes, fuse, before=before)
    async with first.running():
        run_id = await first.submit(task("a"), task("b", "a"))
        if cancel:
            await _first_of(first.begun(run_id, "b"), fuse.blown.wait())
            await first.service.cancel(ADMIN, RunId(run_id=run_id))
        await _first_of(first.over(run_id), fuse.blown.wait())
        crashed = fuse.blown.is_set()
    await store.write(lambda tx: None)  # a killed process commits nothing any more
    async with RunWorld(store, simulated, root).running() as second:
        view = await second.over(run_id)
        if not cancel:
            assert view.state.result_state is RunResultState.SUCCESS
            assert [(await second.output(each.run_id)).logs[:2] for each in view.tasks or []] == ["/a", "/b"]
        else:
            assert view.state.result_state is RunResultState.CANCELED
        begun = [command for _, command in simulated.kernels.begun]
        assert len(begun) == len(set(begun)) <= 2, "nothing runs twice"
        assert cancel or len(begun) == 2
        clusters = await store.read(lambda tx: tx.clusters.count_by_state())
        assert clusters == {"TERMINATED": sum(1 for each in view.tasks or [] if each.cluster_instance)}
        assert not simulated.observe(), "no instance is left"
    return crashed


async def _first_of(*works: Any) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def crash_at(root: Path, steps: int, *, before: bool, cancel: bool) -> bool:
    own = root / str(steps)
    own.mkdir()
    store = Store.open(f"sqlite:///{own / 'test.db'}")
    try:
        async with asyncio.timeout(60):
            return await crash_and_recover(own, store, steps, before=before, cancel=cancel)
    finally:
        store.close()


@pytest.mark.parametrize(
    ("before", "cancel"), [(True, False), (False, False), (False, True)], ids=["before", "after", "cancelled-and-after"]
)
def test_killed_at_every_step(tmp_path: Path, before: bool, cancel: bool) -> None:
    async def batch(steps: range) -> list[bool]:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # tasks that end by a Crash
        return await asyncio.gather(*(crash_at(tmp_path, each, before=before, cancel=cancel) for each in steps))

    for start in range(1, 200, AT_ONCE):
        crashed = asyncio.run(batch(range(start, start + AT_ONCE)))
        assert start > 1 or all(crashed[:8]), "the scenario has steps to crash at"
        if not any(crashed):
            return
    pytest.fail("the scenario never came to its end")
