"""Jobs, and the loops of servers that begin their runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from brickyard.access import Authorizer
from brickyard.domain.clock import Ids
from brickyard.domain.queries import RunFilter
from brickyard.domain.run import Run
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.tasks import SparkPythonTask, SubmitTask
from brickyard.features.jobs.loop import JobLoop
from brickyard.features.jobs.model import (
    CreateJob,
    CronSchedule,
    GetJob,
)
from brickyard.features.jobs.service import JobService
from brickyard.features.jobs.watches import Watches
from brickyard.features.notifications.service import Receivers
from brickyard.features.runs.making import RunMaker
from brickyard.features.runs.taskfiles import TaskFiles
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL
from tests.support.desk import ADMIN, Desk

NOON = CronSchedule(quartz_cron_expression="0 0 12 * * ?", timezone_id="UTC")
DAY_MS = 86_400_000
TASK = SubmitTask(
    task_key="a",
    spark_python_task=SparkPythonTask(python_file="dbfs:/a.py"),
    new_cluster=ClusterSpec(spark_version="17.3.x-scala2.13", node_type_id=SMALL.node_type_id, num_workers=1),
)


class KnownTables:
    """Tables by their names, in place of the metastore."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, str]] = {}

    def facts(self, full_name: str) -> tuple[str, str] | None:
        return self.known.get(full_name)


class Jobs:
    """Jobs, and the loops of servers that run them."""

    def __init__(self, desk: Desk, store: Store, root: Path) -> None:
        self.store, self.clock = store, desk.clock
        self.maker = RunMaker(
            clock=desk.clock,
            ids=Ids(),
            authorizer=Authorizer(),
            specify=desk.service.commands.specify,
            files=TaskFiles(dbfs=root / "dbfs", machine=None),
            receivers=Receivers(mails=False),
        )
        self.trees = {"dbfs": root / "dbfs", "Volumes": root / "volumes"}
        self.tables = KnownTables()
        self.watches = Watches(trees=self.trees, tables=self.tables, authorizer=Authorizer())
        self.service = JobService(
            store=store,
            clock=desk.clock,
            ids=Ids(),
            authorizer=Authorizer(),
            runs=self.maker,
            watches=self.watches,
            wake_run=lambda _: None,
        )
        self.noted: list[str] = []

    async def create(self, **fields: object) -> int:
        asked = {"name": "nightly", "tasks": [TASK], "schedule": NOON, "max_concurrent_runs": 10, **fields}
        return await self.service.create(ADMIN, CreateJob(**asked))  # type: ignore[arg-type] # fields

    async def next_ms(self, job_id: int) -> int:
        return (await self.service.get(ADMIN, GetJob(job_id=job_id))).next_run_time or 0

    async def at_next(self, job_id: int, *, late_ms: int = 0) -> None:
        """Moves the clock to the job's next run."""
        self.clock.advance(ms=await self.next_ms(job_id) - self.clock.now_ms() + late_ms)

    async def run(self, job_id: int, servers: int = 1) -> list[Run]:
        """The job's runs after the loops of so many servers have looked at it."""
        loops = [
            JobLoop(
                store=self.store,
                clock=self.clock,
                runs=self.maker,
                watches=self.watches,
                wake_run=lambda _: None,
                note=lambda operation, caller, **objects: self.noted.append(operation),
            )
            for _ in range(servers)
        ]
        await asyncio.gather(*(loop.work(job_id, timed=False) for loop in loops))
        which = RunFilter(job_id=job_id)
        return await self.store.read(lambda tx: tx.runs.page(which, newest_first=False, limit=100, offset=0, after=None))
