"""What is told of a run, to whom, and how often."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.notifications import (
    MAIL,
    EmailNotifications,
    Event,
    HealthRule,
    HealthRules,
    NotificationSettings,
    Notifying,
    Webhook,
    WebhookNotifications,
)
from brickyard.domain.run import Attempt, NewRun, Run, RunResultState, Task
from brickyard.domain.tasks import SparkPythonTask, SubmitTask
from brickyard.plan.notices import check, destinations, noticed
from brickyard.plan.repairs import repaired
from brickyard.testing.builders import NOW

R = RunResultState
BAD_ENDS = (R.FAILED, R.TIMEDOUT, R.CANCELED)
HOOK = [Webhook(id="w")]
ALL = {
    "webhook_notifications": WebhookNotifications(
        on_start=HOOK, on_success=HOOK, on_failure=HOOK, on_duration_warning_threshold_exceeded=HOOK
    ),
    "email_notifications": EmailNotifications(on_failure=["a@example.com"]),
    "health": HealthRules(rules=[HealthRule(metric="RUN_DURATION_SECONDS", op="GREATER_THAN", value=60)]),
}


def run_of(*attempts: Attempt, skipped: RunResultState | None = None, retry_at_ms: int = 0, **fields: object) -> Run:
    own = fields.pop("task", {})
    spec = SubmitTask(task_key="a", spark_python_task=SparkPythonTask(python_file="dbfs:/a.py"), **own)  # type: ignore[arg-type] # fields
    task = Task(task_run_id=1, spec=spec, attempts=attempts, skipped=skipped, retry_at_ms=retry_at_ms)
    values = {"run_id": 7, "job_id": 8, "run_name": "r", "creator_user_name": "u", "created_ms": NOW, "tasks": (task,), **fields}
    return Run(**values)  # type: ignore[arg-type] # keyword arguments of a struct


def told(run: Run, now: int = NOW + 1) -> list[tuple[str, str, str]]:
    return [(each.task_key, each.event, each.receiver) for each in noticed(run, now=now).notices]


def attempt(number: int = 0, result: RunResultState | None = None) -> Attempt:
    return Attempt(task_run_id=number + 1, number=number, start_ms=NOW, result=result, decided_ms=NOW if result else 0)


def test_a_run_tells_of_its_start_and_its_end() -> None:
    run = run_of(attempt(), notifying=Notifying(**ALL))  # type: ignore[arg-type] # fields
    assert told(run) == [("", "on_start", "w")]
    over = msgspec.structs.replace(noticed(run, now=NOW).run, ended_ms=NOW + 5, result=R.FAILED, message="no disk")
    found = noticed(over, now=NOW + 5)
    assert [(each.event, each.receiver, each.addresses, each.reason) for each in found.notices] == [
        (Event.FAILURE, "w", (), "no disk"),
        (Event.FAILURE, MAIL, ("a@example.com",), "no disk"),
    ]
    assert noticed(found.run, now=NOW + 9).notices == ()


def test_a_run_in_the_queue_has_not_started() -> None:
    assert told(run_of(queued=True, notifying=Notifying(**ALL))) == []  # type: ignore[arg-type] # fields


@pytest.mark.parametrize(
    ("result", "event"),
    [(R.SUCCESS, "on_success"), (R.SUCCESS_WITH_FAILURES, "on_success"), *((each, "on_failure") for each in BAD_ENDS)],
)
def test_results(result: RunResultState, event: str) -> None:
    of = Notifying(webhook_notifications=ALL["webhook_notifications"])  # type: ignore[arg-type] # it is one
    assert ("", event, "w") in told(run_of(attempt(0, result), ended_ms=NOW + 9, result=result, notifying=of), NOW + 9)


def test_a_skipped_run_and_a_cancelled_one_may_be_silent() -> None:
    hooks = WebhookNotifications(on_failure=HOOK)
    for result, name in (
        (R.CANCELED, "no_alert_for_canceled_runs"),
        (R.MAXIMUM_CONCURRENT_RUNS_REACHED, "no_alert_for_skipped_runs"),
    ):
        for silent in (True, False):
            quiet = NotificationSettings(**{name: silent})
            run = run_of(
                ended_ms=NOW, result=result, notifying=Notifying(webhook_notifications=hooks, notification_settings=quiet)
            )
            assert bool(told(run)) is not silent
    older = EmailNotifications(on_failure=["a@example.com"], no_alert_for_skipped_runs=True)
    run = run_of(ended_ms=NOW, result=R.MAXIMUM_CONCURRENT_RUNS_REACHED, notifying=Notifying(email_notifications=older))
    assert told(run) == []


@pytest.mark.parametrize("last_only", [False, True])
def test_retries_of_a_task(last_only: bool) -> None:
    own = {
        "webhook_notifications": WebhookNotifications(on_start=HOOK, on_failure=HOOK),
        "notification_settings": NotificationSettings(alert_on_last_attempt=last_only),
    }
    first = run_of(attempt(0, R.FAILED), retry_at_ms=NOW + 9, task=own)
    second = run_of(attempt(0, R.FAILED), attempt(1, R.FAILED), task=own)
    start, failure = ("a", "on_start", "w"), ("a", "on_failure", "w")
    assert told(first) == ([start] if last_only else [start, failure])
    assert told(second) == ([start, failure] if last_only else [start, failure, start, failure])


@pytest.mark.parametrize("last_only", [False, True])
def test_a_repair_tells_of_its_own_attempts_only(last_only: bool) -> None:
    """Whoever wants to hear of a task by the time of its repair has not missed what was before."""
    over = run_of(attempt(0, R.FAILED), ended_ms=NOW + 5, result=R.FAILED)
    assert told(over) == []
    own = {
        "webhook_notifications": WebhookNotifications(on_start=HOOK, on_failure=HOOK),
        "notification_settings": NotificationSettings(alert_on_last_attempt=last_only),
    }
    run = repaired(over, NewRun(tasks=(run_of(task=own).tasks[0].spec,)), repair_id=9, at_ms=NOW + 9)
    assert told(run) == []
    (task,) = run.tasks
    begun = msgspec.structs.replace(run, tasks=(msgspec.structs.replace(task, attempts=(*task.attempts, attempt(1))),))
    assert told(begun) == [("a", "on_start", "w")]


def test_a_task_that_was_not_to_run_is_no_failure() -> None:
    own = {"webhook_notifications": WebhookNotifications(on_failure=HOOK)}
    assert [bool(told(run_of(skipped=each, task=own))) for each in (R.EXCLUDED, R.DISABLED, R.UPSTREAM_FAILED)] == [
        False,
        False,
        True,
    ]


def test_a_run_that_takes_long_is_told_once() -> None:
    run = run_of(attempt(), notifying=Notifying(**ALL), task={"health": ALL["health"]})  # type: ignore[arg-type] # fields
    early = noticed(run, now=NOW + 59_999)
    assert early.due_ms == NOW + 60_000
    late = noticed(early.run, now=NOW + 60_000)
    assert [each.event for each in late.notices] == [Event.DURATION_WARNING]
    assert (late.due_ms, late.run.warned_ms, late.run.tasks[0].attempts[0].warned_ms) == (None, NOW + 60_000, NOW + 60_000)
    assert noticed(late.run, now=NOW + 10**9).notices == ()
    again = noticed(late.run, now=NOW)
    assert (again.notices, again.due_ms) == ((), None), "the clock was set back"


@settings(max_examples=200, deadline=None)
@given(
    results=st.lists(st.sampled_from([R.FAILED, R.TIMEDOUT]), max_size=3),
    end=st.sampled_from([None, R.SUCCESS, *BAD_ENDS]),
    times=st.lists(st.integers(-100_000, 200_000), min_size=1, max_size=6),
)
def test_whatever_happens_and_however_often_it_is_looked_at_each_event_is_told_once(
    results: list[RunResultState], end: RunResultState | None, times: list[int]
) -> None:
    own = {"webhook_notifications": ALL["webhook_notifications"], "health": ALL["health"]}
    run, seen = run_of(notifying=Notifying(**ALL), task=own), []  # type: ignore[var-annotated, arg-type] # fields
    history = [run_of(*(attempt(n, r) for n, r in enumerate(results[:upto]))) for upto in range(len(results) + 1)]
    for number, moment in enumerate(times):
        if not run.ended_ms:
            tasks = (msgspec.structs.replace(run.tasks[0], attempts=history[min(number, len(results))].tasks[0].attempts),)
            run = msgspec.structs.replace(run, tasks=tasks)
            if end is not None and number == len(times) - 1:
                run = msgspec.structs.replace(run, ended_ms=NOW + moment + 200_001, result=end)
        for _ in range(2):
            found = noticed(run, now=NOW + moment)
            run, seen = found.run, [*seen, *(each.notice_id for each in found.notices)]
            assert found.due_ms is None or found.due_ms > NOW + moment
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("notifying", "why"),
    [
        ({"webhook_notifications": WebhookNotifications(on_start=HOOK * 4)}, "more than 3"),
        ({"webhook_notifications": WebhookNotifications(on_streaming_backlog_exceeded=HOOK)}, "on_streaming_backlog_exceeded"),
        ({"email_notifications": EmailNotifications(on_start=["a@b.c, d@e.f"])}, "not an e-mail address"),
        ({"email_notifications": EmailNotifications(on_start=["a@b.c\nBcc: x@y.z"])}, "not an e-mail address"),
        ({"email_notifications": EmailNotifications(on_start=["=?utf-8?q?a=0ABcc:x?=@b.c"])}, "not an e-mail address"),
        ({"email_notifications": EmailNotifications(on_start=["(@b.c"])}, "not an e-mail address"),
        (
            {"health": HealthRules(rules=[HealthRule(metric="STREAMING_BACKLOG_FILES", op="GREATER_THAN", value=1)])},
            "RUN_DURATION",
        ),
        ({"health": HealthRules(rules=[HealthRule(metric="RUN_DURATION_SECONDS", op="LESS_THAN", value=1)])}, "GREATER_THAN"),
        ({"health": HealthRules(rules=[HealthRule(metric="RUN_DURATION_SECONDS", op="GREATER_THAN", value=0)])}, "1 or more"),
        ({"notification_settings": NotificationSettings(alert_on_last_attempt=True)}, "belongs to a task"),
    ],
)
def test_refused(notifying: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidParameterValue, match=why):
        check(Notifying(**notifying), "", of_task=False)  # type: ignore[arg-type] # fields


def test_what_clients_send_without_meaning_is_taken() -> None:
    empty = Notifying(
        webhook_notifications=WebhookNotifications(on_start=[]), email_notifications=EmailNotifications(on_failure=[])
    )
    check(empty, "", of_task=False)
    assert destinations(empty) == set()
    assert noticed(run_of(attempt(), notifying=empty), now=NOW).notices == ()
