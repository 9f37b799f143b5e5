"""Dynamic references: what they become, and which are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.run import Attempt, AttemptPhase, JobParameter, Run, RunResultState, Task
from brickyard.domain.tasks import SubmitTask
from brickyard.plan.references import check, resolved

CREATED_MS = 1_767_225_599_123  # 2025-12-31 23:59:59.123 UTC, a Wednesday
DONE = Attempt(task_run_id=11, phase=AttemptPhase.DONE, result=RunResultState.SUCCESS, outcome="true")
FIRST = Task(task_run_id=11, spec=SubmitTask(task_key="first"), attempts=(DONE,))
NOW = Attempt(task_run_id=22, number=2)
SECOND = Task(task_run_id=20, spec=SubmitTask(task_key="second"), attempts=(NOW,))
RUN = Run(
    run_id=7,
    job_id=5,
    run_name="nightly",
    creator_user_name="ada",
    created_ms=CREATED_MS,
    tasks=(FIRST, SECOND),
    parameters=(JobParameter(name="day", value="{{job.start_time.iso_date}}"), JobParameter(name="who", value="{{task.name}}")),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{job.id}}-{{ job.run_id }}", "5-7"),
        ("{{job.repair_count}}", "0"),
        ("{{job.name}} {{job.trigger.type}}", "nightly one_time"),
        ("{{job.start_time.iso_datetime}}", "2025-12-31T23:59:59.123Z"),
        ("{{job.start_time.iso_weekday}} {{job.start_time.is_weekday}} {{job.start_time.timestamp_ms}}", f"3 true {CREATED_MS}"),
        ("{{task.name}} {{task.run_id}} {{task.execution_count}}", "second 22 3"),
        ("{{task_key}} {{run_id}} {{parent_run_id}} {{task_retry_count}} {{start_date}}", "second 22 7 2 2025-12-31"),
        ("{{tasks.first.result_state}} {{tasks.first.run_id}} {{tasks.first.outcome}}", "success 11 true"),
        ("{{job.parameters.day}}", "2025-12-31"),
        ("{{job.parameters.who}}", "{{task.name}}"),  # a parameter is the same for all tasks
        ("{{nothing}} {job.id} }}{{", "{{nothing}} {job.id} }}{{"),
    ],
)
def test_references_become_values(text: str, value: str) -> None:
    assert resolved(text, RUN, SECOND, NOW) == value


@given(st.text(alphabet="{}jobid. task", max_size=40))
def test_any_text_is_resolved_once_and_without_an_error(text: str) -> None:
    assert isinstance(resolved(text, RUN, SECOND, NOW), str)


@pytest.mark.parametrize(
    "text", ["{{job.idd}}", "{{tasks.other.run_id}}", "{{tasks.first.nothing}}", "{{job.parameters.x}}", "{{}}"]
)
def test_references_to_nothing_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameterValue):
        check([text], "Task second: ", tasks=["first"], parameters=["day"])
    check(["{{job.id}} {{tasks.first.run_id}} {{job.parameters.day}}"], "", tasks=["first"], parameters=["day"])
