"""What is known of the Spark jobs of commands that run."""

from __future__ import annotations

import threading
from typing import Any

from brickyard.runtime.node.contexts import progress
from tests.support.patience import until

JOB = {
    "jobId": 3, "numTasks": 12, "numSkippedTasks": 2, "numCompletedTasks": 4, "numActiveTasks": 2, "numFailedTasks": 1,
    "stageIds": [1, 2, 3], "numSkippedStages": 1, "numCompletedStages": 1,
}  # fmt: skip
TOLD = {
    "job_id": 3, "tasks": 10, "completed_tasks": 4, "active_tasks": 2, "failed_tasks": 1, "stages": 2, "completed_stages": 1,
}  # fmt: skip


def test_a_commands_jobs_are_those_of_its_group_or_tag() -> None:
    tag = "SparkConnect_OperationTag_User_ada_Session_1_Tag_mine"
    running: list[dict[str, Any]] = [
        {**JOB, "jobGroup": "mine"},
        {**JOB, "jobId": 1, "jobTags": [tag]},
        {**JOB, "jobId": 2, "jobGroup": "other", "jobTags": [tag + "2"]},
        {**JOB, "jobId": 4},
    ]
    assert progress.jobs_of(running, "mine") == [{**TOLD, "job_id": 1}, TOLD]


def test_looks_never_wait_and_spark_is_asked_once_at_a_time() -> None:
    asked, go_on = [], threading.Event()

    def ask(group: str) -> progress.Jobs:
        asked.append(group)
        assert go_on.wait(60)
        return [TOLD] * 50

    jobs = progress.RunningJobs(ask)
    assert [jobs.of("a") for _ in range(5)] == [[]] * 5
    until(lambda: asked == ["a"], "the look")
    go_on.set()
    until(lambda: len(jobs.of("a")) == progress.MAX_JOBS, "the answer")
    assert asked == ["a"]  # the next look is not due
    jobs.close()
    assert jobs.of("b") == []


def test_a_driver_that_cannot_be_asked_has_no_jobs() -> None:
    def ask(group: str) -> progress.Jobs:
        raise OSError(group)

    jobs = progress.RunningJobs(ask)
    assert jobs.of("a") == []
    until(lambda: not jobs._asking, "the look")
    assert jobs.of("a") == []
    jobs.close()
