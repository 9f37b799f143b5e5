"""A server without its API that runs tasks: the world of `world.py` with the run loop and simulated drivers' contexts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from brickyard.access import Authorizer
from brickyard.clusters.attach.shares import ContextShare
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Cluster
from brickyard.domain.run import Run, Task
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.tasks import SparkPythonTask, SubmitRun, SubmitTask, TaskDependency
from brickyard.features.credentials.tasktokens import TaskTokens
from brickyard.features.jobs.children import JobsOfTasks
from brickyard.features.jobs.service import JobService
from brickyard.features.jobs.watches import Watches
from brickyard.features.notifications.service import Receivers
from brickyard.features.runs.cells import CellCollector
from brickyard.features.runs.dbttasks import DbtTasks
from brickyard.features.runs.making import RunMaker
from brickyard.features.runs.model import GetOutput, GetRun, RunView
from brickyard.features.runs.service import RunService
from brickyard.features.runs.taskfiles import TaskFiles
from brickyard.features.runs.tasknodes import MAGIC, NOTEBOOK_MAGIC, DriverTasks, Refusal
from brickyard.nodes.calls import NodeCalls
from brickyard.nodes.tokens import InstanceTokens
from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from brickyard.reconcile.runpass import Call
from brickyard.reconcile.runrights import Rights
from brickyard.reconcile.runs import RunLoop
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SPARK_4
from tests.features.jobs.world import KnownTables
from tests.reconcile.world import CLOCK, World
from tests.support.patience import PATIENCE_S
from tests.support.services import cluster_service

ADMIN = Caller(user_name="admin@example.com", user_id="1", is_admin=True, token_id="t")
RUNTIME = SPARK_4
CLUSTER = ClusterSpec(spark_version=RUNTIME.key, node_type_id="small", num_workers=1)
FAILURE = {
    "resultType": "error",
    "summary": "<span class='ansired'>ValueError</span>: 1 &lt; 2",
    "cause": "Traceback (most recent call last) ...\nValueError: 1 < 2",
    "data": "before it failed",
}


# Of every notebook; as a driver reports them.
CELLS: list[dict[str, Any]] = [
    {"number": 0, "version": 4, "source": "print(1)", "language": "python", "state": "FINISHED", "start_time": 1_000,
     "end_time": 2_000, "results": [{"resultType": "text", "data": "1\n"}]},
    {"number": 1, "version": 6, "source": "%sql\nselect 1", "language": "sql", "state": "RUNNING", "start_time": 2_000,
     "widgets": {"day": "monday"}, "results": [
         {"resultType": "table", "schema": [{"name": "a", "type": '"integer"'}], "data": [[1]], "truncated": False}]},
    {"number": 2, "version": 3, "source": "never()", "language": "python"},
]  # fmt: skip


def task(key: str, *needs: str, on: str = "", file: str = "", **fields: Any) -> SubmitTask:
    """A task that runs `dbfs:/KEY.py`, on a cluster of its own unless one is named."""
    return SubmitTask(
        task_key=key,
        spark_python_task=SparkPythonTask(python_file=file or f"dbfs:/{key}.py", parameters=["--key", key]),
        existing_cluster_id=on or None,
        new_cluster=None if on else CLUSTER,
        depends_on=[TaskDependency(task_key=each) for each in needs] or None,
        **fields,
    )


def answer(command: str) -> Answer:
    """What the simulated driver makes of a task, by a word in its file: fail, slow, die, or print its own source."""
    magic, _, body = command.partition("\n")
    asked = json.loads(body)
    if magic.startswith(f"{NOTEBOOK_MAGIC} task "):
        values = {"path": asked["path"], "seen": asked["values"]}
        results = {"resultType": "text", "data": json.dumps(asked["arguments"]), "exited": True, "values": values}
        return Answer(results=results, cells=CELLS)
    assert magic.startswith(f"{MAGIC} task ")
    if asked["kind"] != "python":
        return Answer(results={"resultType": "text", "data": body})
    source = asked["source"]
    if "fail" in source:
        return Answer(results=FAILURE)
    if "die" in source:
        return Answer(results={**FAILURE, "summary": "PythonProcessDied: gone"}, status="Error")
    printed = f"{asked['path']} {' '.join(asked['parameters'])}: {source}"
    return Answer(results={"resultType": "text", "data": printed}, after_s=3600.0 if "slow" in source else 0.05)


async def _nobody_refused(_call: Call) -> str:
    return ""


async def _no_share(_call: Call) -> ContextShare:
    return ContextShare()


class EveryRight:
    """Nobody's runs are refused anything."""

    def refused(self, tx: Tx, run: Run, task: Task, cluster: Cluster | None) -> str:
        del tx, run, task, cluster
        return ""

    def full(self, tx: Tx, run: Run, policy_id: str, *, more: int, ending: int) -> str:
        del tx, run, policy_id, more, ending
        return ""


class RunWorld(World):
    """One server process; make a second one over the same store, provider and files to play a restart."""

    def __init__(
        self,
        store: Store,
        provider: SimulatedProvider,
        root: Path,
        *,
        clock: Clock = CLOCK,
        runs_store: Store | None = None,
        around_drivers: Callable[[DriverTasks], Any] = lambda tasks: tasks,
        rights: Rights | None = None,
    ) -> None:
        """`clock`: that of the runs. `runs_store` and what `around_drivers` makes: what the run loop uses in place of the store
        and of its calls to drivers."""
        super().__init__(store, provider)
        provider.kernels.compute = answer
        (root / "dbfs").mkdir(exist_ok=True)
        self.root = root
        files = TaskFiles(dbfs=root / "dbfs", machine=root / "machine")
        tokens = InstanceTokens(key=b"k" * 32)
        self.clusters = cluster_service(store, clock=CLOCK, wake=self.loop.wake)
        self.refusal: Refusal = _nobody_refused  # a test may replace it
        calls = NodeCalls(client=provider.agent_client(), tokens=tokens)
        cells = CellCollector(store=store, clock=clock, nodes=calls)
        dbt = DbtTasks(tokens=TaskTokens(store=store, clock=clock, key=b"k" * 32), url="http://127.0.0.1:1")
        drivers = DriverTasks(nodes=calls, files=files, cells=cells, refusal=self._refused, share=_no_share, dbt=dbt)
        self.runs = RunLoop(
            store=runs_store or store,
            clock=clock,
            ids=Ids(),
            nodes=around_drivers(drivers),
            rights=rights or EveryRight(),
            wake_cluster=self.loop.wake,
        )
        specify = self.clusters.commands.specify
        receivers = Receivers(mails=False)
        maker = RunMaker(clock=clock, ids=Ids(), authorizer=Authorizer(), specify=specify, files=files, receivers=receivers)
        self.service = RunService(
            store=store,
            clock=clock,
            authorizer=Authorizer(),
            maker=maker,
            wake=self.runs.wake,
        )
        self.jobs = JobService(
            store=store,
            clock=clock,
            ids=Ids(),
            authorizer=Authorizer(),
            runs=maker,
            watches=Watches(trees={}, tables=KnownTables(), authorizer=Authorizer()),
            wake_run=self.runs.wake,
        )
        self.runs.children = JobsOfTasks(authorizer=Authorizer(), runs=maker)
        store.on_commit(self.runs.changed)

    async def _refused(self, call: Call) -> str:
        return await self.refusal(call)

    def file(self, key: str, source: str) -> None:
        (self.root / "dbfs" / f"{key}.py").write_text(source)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[RunWorld]:
        async with super().running():
            loop = asyncio.create_task(self.runs.run())
            try:
                yield self
            finally:
                loop.cancel()
                await asyncio.gather(loop, return_exceptions=True)

    async def submit(self, *tasks: SubmitTask, **fields: Any) -> int:
        return await self.service.submit(ADMIN, SubmitRun(tasks=list(tasks), **fields))

    async def view(self, run_id: int) -> RunView:
        return await self.service.get(ADMIN, GetRun(run_id=run_id))

    async def row(self, run_id: int) -> Run:
        found = await self.store.read(lambda tx: tx.runs.get(run_id))
        assert found is not None
        return found

    async def over(self, run_id: int, timeout: float = PATIENCE_S) -> RunView:
        """Until the run has ended."""
        async with asyncio.timeout(timeout):
            while not (await self.row(run_id)).ended_ms:
                await asyncio.sleep(0.05)
        return await self.view(run_id)

    async def output(self, run_id: int) -> Any:
        return await self.service.output(ADMIN, GetOutput(run_id=run_id))

    async def begun(self, run_id: int, key: str, timeout: float = PATIENCE_S) -> None:
        """Until the driver has the task."""
        async with asyncio.timeout(timeout):
            while True:
                found = next(each for each in (await self.row(run_id)).tasks if each.spec.task_key == key)
                if found.last is not None and found.last.begun_ms:
                    return
                await asyncio.sleep(0.05)
