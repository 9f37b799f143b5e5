"""Makes the runs of jobs that tasks of other runs ask for."""

from __future__ import annotations

from brickyard.access import Authorizer
from brickyard.access.objects import of_job
from brickyard.domain.access import Permission
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.run import Attempt, Run, Task, TriggerType
from brickyard.features.jobs import rules
from brickyard.features.jobs.model import RunNow
from brickyard.features.jobs.rows import JobRows
from brickyard.features.jobs.runs import Runs
from brickyard.features.jobs.service import principal_for
from brickyard.plan.childruns import overrides, parent_of
from brickyard.store.tx import Tx


class JobsOfTasks:
    """Implements `reconcile.runs.ChildRuns`. A run that makes another one needs the right to run its job."""

    def __init__(self, *, authorizer: Authorizer, runs: Runs) -> None:
        self._authorizer = authorizer
        self._runs = runs

    def make(self, tx: Tx, run: Run, task: Task, attempt: Attempt) -> Run:
        asked = task.spec.run_job_task
        if asked is None:
            raise InvalidParameterValue(f"Task {task.spec.task_key} runs no job.")
        parent = parent_of(run, attempt, asked.job_id)
        row = tx.rows(JobRows).get(asked.job_id)
        if row is None:
            raise InvalidParameterValue(f"Job {asked.job_id} does not exist.")
        owner = principal_for(tx, run.creator_user_name, f"Run {run.run_id}")
        self._authorizer.require(tx, owner, Permission.CAN_MANAGE_RUN, of_job(row.job_id, row.owned_by), to="run")
        request = RunNow(job_id=row.job_id, **overrides(asked, run, task, attempt))
        new = rules.wanted(row, request, trigger=TriggerType.RUN_JOB_TASK, parent=parent)
        return self._runs.make(tx, principal_for(tx, row.run_as, f"Job {row.job_id}"), new)
