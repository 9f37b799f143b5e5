"""A server that dies at every step of a run; the next one finishes it, and no task ever begins twice.

Instances, drivers and what runs on them live on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.domain.queries import RunFilter
from brickyard.domain.run import RunResultState
from brickyard.domain.tasks import ConditionOp, ConditionTask, ForEachTask, JobCluster, RunJobTask, SubmitTask, TaskDependency
from brickyard.features.jobs.model import CreateJob, RepairRun
from brickyard.features.runs.model import RunId
from brickyard.providers.simulated import SimulatedProvider
from brickyard.store.store import Store
from tests.reconcile.crashes import Fuse, FusedStore, first_of, killed_at_every_step
from tests.reconcile.runworld import ADMIN, CLUSTER, RunWorld, task
from tests.reconcile.world import provider
from tests.support.people import enter


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


def fused_runs(store: Store, simulated: SimulatedProvider, root: Path, fuse: Fuse, *, before: bool) -> RunWorld:
    """A server whose run loop burns the fuse with each write and each call to a driver."""
    written: Any = FusedStore(store, fuse, before=before)
    return RunWorld(
        store, simulated, root, runs_store=written, around_drivers=lambda tasks: FusedNodes(tasks, fuse, before=before)
    )


def shared_task(key: str, *needs: str) -> SubmitTask:
    return msgspec.structs.replace(task(key, *needs), new_cluster=None, job_cluster_key="both")


async def crash_and_recover(root: Path, store: Store, steps: int, *, before: bool, cancel: bool, shared: bool) -> bool:
    """Returns whether the crash came before the run was over."""
    simulated = provider()
    fuse = Fuse(steps)
    first = fused_runs(store, simulated, root, fuse, before=before)
    first.file("a", "one")
    first.file("b", "slow" if cancel else "two")
    async with first.running():
        make = shared_task if shared else task
        clusters = [JobCluster(job_cluster_key="both", new_cluster=CLUSTER)] if shared else None
        run_id = await first.submit(make("a"), make("b", "a"), job_clusters=clusters)
        if cancel:
            await first_of(first.begun(run_id, "b"), fuse.blown.wait())
            await first.service.cancel(ADMIN, RunId(run_id=run_id))
        await first_of(first.over(run_id), fuse.blown.wait())
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
        if cancel and len(begun) == 2:
            assert (await second.output((view.tasks or [])[1].run_id)).logs == "printed before", "its output is kept"
        assert len(begun) == len(set(begun)) <= 2, "nothing runs twice"
        assert cancel or len(begun) == 2
        made = await store.read(lambda tx: tx.clusters.count_by_state())
        used = {each.cluster_instance.cluster_id for each in view.tasks or [] if each.cluster_instance}
        assert made == {"TERMINATED": len(used)}
        assert len(used) == 1 or not shared
        assert not simulated.observe(), "no instance is left"
    return crashed


async def crash_in_a_repair(root: Path, store: Store, steps: int, *, before: bool) -> bool:
    """A repair of a run whose tasks run another job, and a condition for each of some inputs."""
    simulated = provider()
    fuse = Fuse(steps)
    first = fused_runs(store, simulated, root, fuse, before=before)
    first.file("a", "fail")
    await store.write(lambda tx: enter(tx, ADMIN))
    async with first.running():
        inner = await first.jobs.create(ADMIN, CreateJob(tasks=[task("a")]))
        each = SubmitTask(task_key="each", condition_task=ConditionTask(left="{{input}}", op=ConditionOp.EQUAL_TO, right="1"))
        loop = ForEachTask(inputs="[1, 2]", task=each)
        tasks = [
            SubmitTask(task_key="child", run_job_task=RunJobTask(job_id=inner)),
            SubmitTask(task_key="loop", for_each_task=loop, depends_on=[TaskDependency(task_key="child")]),
        ]
        run_id = await first.submit(*tasks)
        await first_of(first.over(run_id), fuse.blown.wait())
        crashed = fuse.blown.is_set()
    await store.write(lambda tx: None)  # a killed process commits nothing any more
    async with RunWorld(store, simulated, root).running() as second:
        assert (await second.over(run_id)).state.result_state is RunResultState.FAILED
        second.file("a", "one")
        await second.jobs.repair(ADMIN, RepairRun(run_id=run_id, rerun_all_failed_tasks=True))
        view = await second.over(run_id)
        assert view.state.result_state is RunResultState.SUCCESS
        made = await store.read(
            lambda tx: tx.runs.page(RunFilter(job_id=inner), newest_first=True, limit=9, offset=0, after=None)
        )
        assert len(made) == 2, "each attempt has made one run"
        found = next(
            each for each in view.tasks or [] if each.for_each_task and each.state.result_state is RunResultState.SUCCESS
        )
        iterations = (await second.view(found.run_id)).iterations or []
        assert [each.state.result_state for each in iterations] == [RunResultState.SUCCESS] * 2
    return crashed


async def crash_during_a_repair(root: Path, store: Store, steps: int, *, before: bool) -> bool:
    """The server dies after the run has failed and is being repaired: what succeeded is not run again, and the rest once."""
    simulated = provider()
    fuse = Fuse(10_000)
    first = fused_runs(store, simulated, root, fuse, before=before)
    first.file("a", "one")
    first.file("b", "fail")
    await store.write(lambda tx: enter(tx, ADMIN))
    clusters = [JobCluster(job_cluster_key="both", new_cluster=CLUSTER)]
    async with first.running():
        run_id = await first.submit(task("a"), shared_task("b", "a"), shared_task("c", "b"), job_clusters=clusters)
        assert (await first.over(run_id)).state.result_state is RunResultState.FAILED
        first.file("b", "two")
        first.file("c", "three")
        fuse.left = steps
        await first.jobs.repair(ADMIN, RepairRun(run_id=run_id, rerun_all_failed_tasks=True))
        await first_of(first.over(run_id), fuse.blown.wait())
        crashed = fuse.blown.is_set()
    await store.write(lambda tx: None)  # a killed process commits nothing any more
    async with RunWorld(store, simulated, root).running() as second:
        view = await second.over(run_id)
        assert view.state.result_state is RunResultState.SUCCESS
        assert [(each.task_key, each.attempt_number) for each in view.tasks or []] == [("a", 0), ("b", 0), ("b", 1), ("c", 0)]
        begun = [command for _, command in simulated.kernels.begun]
        assert len(begun) == len(set(begun)) == 4, "a once, b twice, c once"
        assert not simulated.observe(), "no instance is left"
    return crashed


@pytest.mark.extended
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_killed_at_every_step_of_a_repair(tmp_path: Path, before: bool) -> None:
    async def crash_at(root: Path, store: Store, steps: int) -> bool:
        return await crash_during_a_repair(root, store, steps, before=before)

    killed_at_every_step(tmp_path, crash_at, steps_at_least=9, at_once=44)


@pytest.mark.extended
def test_killed_at_every_step_of_a_run_that_runs_another_job(tmp_path: Path) -> None:
    async def crash_at(root: Path, store: Store, steps: int) -> bool:
        return await crash_in_a_repair(root, store, steps, before=False)

    killed_at_every_step(tmp_path, crash_at, steps_at_least=9, at_once=44)


@pytest.mark.parametrize(
    ("before", "cancel", "shared"),
    [
        pytest.param(True, False, False, id="before"),
        pytest.param(False, False, False, id="after", marks=pytest.mark.extended),  # what is cancelled has died there, too
        pytest.param(False, True, False, id="cancelled-and-after"),
        pytest.param(True, False, True, id="shared-before"),
        pytest.param(False, True, True, id="shared-cancelled-and-after", marks=pytest.mark.extended),
    ],
)
def test_killed_at_every_step(tmp_path: Path, before: bool, cancel: bool, shared: bool) -> None:
    async def crash_at(root: Path, store: Store, steps: int) -> bool:
        return await crash_and_recover(root, store, steps, before=before, cancel=cancel, shared=shared)

    killed_at_every_step(tmp_path, crash_at, steps_at_least=9, at_once=44)
