"""A server that dies at every step of a SQL task; the next one finishes it, and no statement runs twice. Spark, and what runs
there, lives on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.access.users import new_user
from brickyard.domain.access import Principal
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.domain.requests import CreateCluster
from brickyard.domain.run import RunResultState
from brickyard.domain.tasks import ForEachTask, SqlTask, SqlTaskFile, SubmitTask
from brickyard.domain.warehouses import Warehouse
from brickyard.features.runs.model import GetOutput, RunId
from brickyard.features.runs.runners import TaskRunners
from brickyard.features.runs.sqltasks import SavedText, SqlTasks
from brickyard.features.statements.model import ColumnInfo, Part, Query, StatementFailed
from brickyard.features.statements.results import ResultFiles
from brickyard.features.statements.running import RunningStatements
from brickyard.features.statements.tasks import TaskStatementService
from brickyard.providers.simulated import SimulatedProvider
from brickyard.reconcile.runpass import Call
from brickyard.store.store import Store
from tests.reconcile.crashes import Fuse, FusedStore, first_of, killed_at_every_step
from tests.reconcile.runworld import ADMIN, RUNTIME, RunWorld
from tests.reconcile.world import CLOCK, provider

WAREHOUSE = CreateCluster(
    cluster_name="w", spark_version=RUNTIME.key, node_type_id="small", num_workers=1, autotermination_minutes=0
)


class Spark:
    """Knows statements by their ids, and sessions that have ended. It outlives servers."""

    def __init__(self) -> None:
        self.begun: dict[str, str] = {}
        self.ended: set[str] = set()

    async def run(self, caller: Caller, query: Query) -> AsyncIterator[Part]:
        """See `SqlRunner`. A statement that waits is over when its session has ended."""
        session = query.session
        assert session is not None
        assert caller.user_name == ADMIN.user_name
        if why := "SESSION_CLOSED" if session.session_id in self.ended else await session.refusal():
            raise StatementFailed(why)
        assert session.resume or query.statement_id not in self.begun, "an id is sent once"
        if query.statement_id not in self.begun:
            self.begun[query.statement_id] = query.text
        await asyncio.sleep(0.01)
        while "slow" in query.text:
            if session.session_id in self.ended:
                raise StatementFailed("OPERATION_CANCELED")
            await asyncio.sleep(0.02)
        yield Part(0, b"")
        yield Part(1, query.text.encode())

    async def end(self, caller: Caller, cluster_id: str, session_id: str) -> None:
        """See `SqlRunner`."""
        del caller, cluster_id
        self.ended.add(session_id)

    def columns(self, stream: bytes) -> list[ColumnInfo]:
        """See `SqlRunner`."""
        del stream
        return [ColumnInfo(name="text", type_text="STRING", type_name="STRING", position=0)]

    def rows(self, stream: bytes) -> list[list[str | None]]:
        """See `SqlRunner`."""
        return [[stream.decode()]]


class Texts:
    """The path of a file is its text."""

    async def file(self, owner: Principal, path: str) -> str:
        """See `SqlSources`."""
        assert owner.user_name == ADMIN.user_name
        return path.removeprefix("/")

    async def query(self, owner: Principal, query_id: str) -> SavedText:
        """See `SqlSources`."""
        return SavedText(text=await self.file(owner, query_id))


async def nobody_refused(_call: Call) -> str:
    return ""


class SqlWorld(RunWorld):
    """A server that runs SQL tasks."""

    def __init__(self, store: Store, simulated: SimulatedProvider, root: Path, spark: Spark, written: Any = None) -> None:
        written = written or store
        files = ResultFiles(root / "results")
        self.statements = RunningStatements(store=written, clock=CLOCK, files=files, runner=spark)
        tasks = TaskStatementService(store=written, clock=CLOCK, running=self.statements, files=files, runner=spark)
        sql = SqlTasks(store=written, sources=Texts, statements=lambda: tasks, refusal=nobody_refused)
        super().__init__(
            store,
            simulated,
            root,
            runs_store=written,
            around_drivers=lambda drivers: TaskRunners(drivers=drivers, sql=sql),
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[SqlWorld]:
        async with super().running():
            try:
                yield self
            finally:
                await self.statements.close()  # records nothing: what runs is left to another server

    async def warehouse(self) -> str:
        """A warehouse that starts, in a workspace with an administrator."""
        user = new_user(ADMIN.user_name, ids=Ids(), now_ms=CLOCK.now_ms())

        def work(tx: Any) -> str:
            tx.users.put(user)
            made = self.clusters.warehouse_commands.create(tx, ADMIN, WAREHOUSE, warehouse=Warehouse(cluster_size="Small"))
            return str(made.cluster_id)

        made = await self.store.write(work)
        self.loop.wake(made)
        return made


async def crash_and_recover(root: Path, store: Store, steps: int, *, before: bool, cancel: bool) -> bool:
    """Returns whether the crash came before the run was over."""
    simulated, spark, fuse = provider(), Spark(), Fuse(steps)
    written: Any = FusedStore(store, fuse, before=before)
    first = SqlWorld(store, simulated, root, spark, written)
    text = "/one; two slow" if cancel else "/one; two"
    async with first.running():
        on = await first.warehouse()
        what = SqlTask(warehouse_id=on, file=SqlTaskFile(path=text))
        run_id = await first.submit(SubmitTask(task_key="a", sql_task=what))
        if cancel:
            await first_of(second_statement(spark), fuse.blown.wait())
            await first.service.cancel(ADMIN, RunId(run_id=run_id))
        await first_of(first.over(run_id), fuse.blown.wait())
        crashed = fuse.blown.is_set()
    await store.write(lambda tx: None)  # a killed process commits nothing any more
    async with SqlWorld(store, simulated, root, spark).running() as second:
        view = await second.over(run_id)
        wanted = RunResultState.CANCELED if cancel else RunResultState.SUCCESS
        assert view.state.result_state is wanted, view.state
        begun = list(spark.begun.values())
        output = await second.service.output(ADMIN, GetOutput(run_id=run_id))
        if cancel:
            assert begun in ([], ["one"], ["one", "two slow"])
            assert spark.ended or not begun, "nothing of it goes on"
        else:
            assert begun == ["one", "two"], "each runs once, in order"
            assert output.sql_output and output.sql_output.query_output.result
            assert output.sql_output.query_output.result.data_array == [["two"]]
            assert [each.lookup_key for each in output.sql_output.query_output.sql_statements] == list(spark.begun)
    return crashed


async def second_statement(spark: Spark) -> None:
    while len(spark.begun) < 2:
        await asyncio.sleep(0.02)


async def test_each_iteration_of_a_for_each_task_runs_its_statements(store: Store, tmp_path: Path) -> None:
    spark = Spark()
    async with SqlWorld(store, provider(), tmp_path, spark).running() as world:
        what = SqlTask(warehouse_id=await world.warehouse(), file=SqlTaskFile(path="/one"))
        loop = ForEachTask(inputs="[1, 2]", task=SubmitTask(task_key="each", sql_task=what))
        view = await world.over(await world.submit(SubmitTask(task_key="loop", for_each_task=loop)))
        assert view.state.result_state is RunResultState.SUCCESS, view.state
        assert list(spark.begun.values()) == ["one", "one"]


@pytest.mark.parametrize(("before", "cancel"), [(True, False), (False, True)], ids=["before", "cancelled-and-after"])
def test_killed_at_every_step(tmp_path: Path, before: bool, cancel: bool) -> None:
    async def crash_at(root: Path, store: Store, steps: int) -> bool:
        return await crash_and_recover(root, store, steps, before=before, cancel=cancel)

    killed_at_every_step(tmp_path, crash_at, steps_at_least=6)
