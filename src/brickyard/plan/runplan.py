"""What the planner of runs returns."""

from __future__ import annotations

import msgspec

from brickyard.domain.run import Attempt, Run, Task
from brickyard.plan.specifying import Specified


class NewCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A job cluster to record. `task`: whose attempt needs it first. `users`: all the tasks that run on it."""

    cluster_id: str
    task: Task
    specified: Specified
    users: tuple[Task, ...]


class RunPlan(msgspec.Struct, kw_only=True):
    """The result of a pass. `start` and `release` are cluster ids; `begin`, `look` and `end` are calls to make to drivers; `make`
    and `cancel` are attempts whose runs of other jobs are to be made and cancelled. `over`: iterations that leave. `done`:
    attempts of dbt tasks that are over, and their tokens with them. `wait`: running clusters that attempts wait for, for their
    libraries or their driver's answer: they are not idle meanwhile."""

    run: Run
    create: list[NewCluster] = []
    start: list[str] = []
    release: list[str] = []
    begin: list[Attempt] = []
    look: list[Attempt] = []
    end: list[Attempt] = []
    make: list[Attempt] = []
    cancel: list[Attempt] = []
    over: list[Task] = []
    done: list[int] = []
    wait: set[str] = set()
    due_ms: int | None = None
