"""Who hears of what happens to a run, and when a run takes too long. Pure.

A run remembers the events of which there were notices (`told`), in the transaction that writes the notices: a pass that is
repeated finds nothing more to tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.mailserver import is_address
from brickyard.domain.notifications import (
    MAIL,
    EmailNotifications,
    Event,
    Notice,
    NotificationSettings,
    Notifying,
    WebhookNotifications,
)
from brickyard.domain.run import FAILED, SUCCEEDED, Attempt, Run, RunResultState, Task

MAX_DESTINATIONS = 3  # for each event, as Databricks documents it
MAX_ADDRESSES = 50
MAX_REASON = 1_000
MAX_SECONDS = 10 * 365 * 24 * 3600
_SHOWN = 140
_REFUSED = {
    "on_streaming_backlog_exceeded": "the backlog of streams is not measured",
    "on_maintenance_complete": "there are no maintenance windows",
    "on_maintenance_start": "there are no maintenance windows",
}
_SKIPPED = (
    RunResultState.MAXIMUM_CONCURRENT_RUNS_REACHED,
    RunResultState.UPSTREAM_CANCELED,
    RunResultState.UPSTREAM_FAILED,
)


class Noticed(NamedTuple):
    """The run with what it remembers, the notices to write with it, and when its next warning may be due."""

    run: Run
    notices: tuple[Notice, ...]
    due_ms: int | None


def check(notifying: Notifying, where: str, *, of_task: bool) -> None:
    """Raises InvalidParameterValue for fields that make no sense. Whether destinations exist is looked up elsewhere."""
    webhooks, mail = notifying.webhook_notifications, notifying.email_notifications
    for field, value in (("webhook_notifications", webhooks), ("email_notifications", mail)):
        for name, why in _REFUSED.items():
            if getattr(value, name, None):
                raise InvalidParameterValue(f"{where}{field}.{name} is not supported: {why}.")
    for event in Event:
        if len(_hooks(webhooks, event)) > MAX_DESTINATIONS:
            raise InvalidParameterValue(
                f"{where}webhook_notifications.{event} has more than {MAX_DESTINATIONS} destinations, which is the maximum."
            )
        addresses = _addresses(mail, event)
        if len(addresses) > MAX_ADDRESSES:
            raise InvalidParameterValue(f"{where}email_notifications.{event} has more than {MAX_ADDRESSES} addresses.")
        for each in addresses:
            if not is_address(each):
                raise InvalidParameterValue(
                    f"{where}email_notifications.{event}: {each[:_SHOWN]!r} is not an e-mail address such as name@example.com."
                )
    if not of_task and notifying.notification_settings and notifying.notification_settings.alert_on_last_attempt:
        raise InvalidParameterValue("notification_settings.alert_on_last_attempt belongs to a task.")
    _check_health(notifying, where)


def destinations(notifying: Notifying) -> set[str]:
    """The ids of the destinations that are named."""
    return {each for event in Event for each in _hooks(notifying.webhook_notifications, event)}


def mailed(notifying: Notifying) -> bool:
    """Whether e-mail is asked for."""
    return any(_addresses(notifying.email_notifications, event) for event in Event)


def longest_ms(notifying: Notifying) -> int:
    """After how long a run is told to be slow; 0: never."""
    rules = (notifying.health.rules if notifying.health is not None else None) or ()
    return rules[0].value * 1000 if rules else 0


def noticed(run: Run, *, now: int) -> Noticed:
    """What is to be told of the run as it is now."""
    found, dues = [], []
    if (due := _slow_ms(run)) is not None:
        if now >= due:
            run = msgspec.structs.replace(run, warned_ms=now)
        else:
            dues.append(due)
    tasks = []
    for task in run.tasks:
        due = _slow_attempt_ms(task, task.last) if task.last is not None else None
        if due is not None and now >= due:
            warned = msgspec.structs.replace(task.attempts[-1], warned_ms=now)
            tasks.append(msgspec.structs.replace(task, attempts=(*task.attempts[:-1], warned)))
        else:
            tasks.append(task)
            dues.extend([due] if due is not None else [])
    run = msgspec.structs.replace(run, tasks=tuple(tasks))
    told = set(run.told)
    for mark, notice, of in _of_run(run, now):
        receivers = [*_hooks(of.webhook_notifications, notice.event)]
        addresses = tuple(dict.fromkeys(_addresses(of.email_notifications, notice.event)))
        if mark in told or not (receivers or addresses):
            continue
        told.add(mark)
        for receiver in (*dict.fromkeys(receivers), *([MAIL] if addresses else [])):
            known = {
                "notice_id": _id(run, mark, receiver),
                "receiver": receiver,
                "addresses": addresses if receiver == MAIL else (),
            }
            found.append(msgspec.structs.replace(notice, **known))
    if found:
        run = msgspec.structs.replace(run, told=tuple(sorted(told)))
    return Noticed(run, tuple(found), min(dues, default=None))


# --- inside ---


def _of_run(run: Run, now: int) -> Iterator[tuple[str, Notice, Notifying]]:
    """What has happened so far: a mark, the notice without its receiver, and who may hear of it."""
    about = Notice(
        notice_id="", receiver="", event=Event.START, job_id=run.job_id, job_name=run.run_name, run_id=run.run_id, at_ms=now
    )
    replace = msgspec.structs.replace
    of_repair = f"{run.repair_id}/" if run.repair_id else ""  # a repaired run begins and ends once more
    begun = not run.queued and run.result is not RunResultState.MAXIMUM_CONCURRENT_RUNS_REACHED
    if begun and (not run.ended_ms or any(task.attempts for task in run.tasks)):
        yield f"{of_repair}{Event.START}", about, run.notifying
    if run.warned_ms:
        yield f"{of_repair}{Event.DURATION_WARNING}", replace(about, event=Event.DURATION_WARNING), run.notifying
    if run.ended_ms and (event := _ending(run.result, run.notifying)) is not None:
        yield (
            f"{of_repair}{event}",
            replace(about, event=event, result=run.result or "", reason=run.message[:MAX_REASON]),
            run.notifying,
        )
    if run.ended_ms == run.created_ms:
        return  # it was over before it began, and so its tasks are not worth a word
    for task in run.tasks:
        of_task = replace(about, task_key=task.spec.task_key)
        for attempt in task.attempts[task.repaired :]:  # what was to be told of others was told before the repair
            yield from _of_attempt(task, attempt, replace(of_task, task_run_id=attempt.task_run_id))
        if task.skipped is not None and (event := _ending(task.skipped, task.spec)) is not None:
            of_skipped = replace(of_task, event=event, result=task.skipped, task_run_id=task.task_run_id)
            yield f"{task.task_run_id}/{event}", of_skipped, task.spec


def _of_attempt(task: Task, attempt: Attempt, about: Notice) -> Iterator[tuple[str, Notice, Notifying]]:
    replace, spec = msgspec.structs.replace, task.spec
    settings = spec.notification_settings or NotificationSettings()
    if not (attempt.number > task.repaired and settings.alert_on_last_attempt):
        yield f"{attempt.task_run_id}/{Event.START}", about, spec
    if attempt.warned_ms:
        event = Event.DURATION_WARNING
        yield f"{attempt.task_run_id}/{event}", replace(about, event=event), spec
    retried = attempt is not task.attempts[-1] or bool(task.retry_at_ms)
    ending = _ending(attempt.result, spec)
    if ending is not None and not (retried and settings.alert_on_last_attempt):
        known = replace(about, event=ending, result=attempt.result or "", reason=attempt.message[:MAX_REASON])
        yield f"{attempt.task_run_id}/{ending}", known, spec


def _ending(result: RunResultState | None, of: Notifying) -> Event | None:
    """What a result is to those who hear of it; None: nothing."""
    settings = of.notification_settings or NotificationSettings()
    mail = of.email_notifications or EmailNotifications()
    if result in SUCCEEDED:
        return Event.SUCCESS
    if result in FAILED:
        return Event.FAILURE
    if result is RunResultState.CANCELED:
        return None if settings.no_alert_for_canceled_runs else Event.FAILURE
    if result in _SKIPPED:
        return None if settings.no_alert_for_skipped_runs or mail.no_alert_for_skipped_runs else Event.FAILURE
    return None


def _slow_ms(run: Run) -> int | None:
    """When the run will have taken too long; None if that will not be, or is known."""
    limit = longest_ms(run.notifying)
    if not limit or run.queued or run.ended_ms or run.warned_ms:
        return None
    return (run.dequeued_ms or run.began_ms) + limit


def _slow_attempt_ms(task: Task, attempt: Attempt) -> int | None:
    limit = longest_ms(task.spec)
    if not limit or attempt.decided or attempt.warned_ms:
        return None
    return attempt.start_ms + limit


def _hooks(webhooks: WebhookNotifications | None, event: Event) -> list[str]:
    return [each.id for each in getattr(webhooks, event, None) or ()]


def _addresses(mail: EmailNotifications | None, event: Event) -> list[str]:
    return getattr(mail, event, None) or []


def _id(run: Run, mark: str, receiver: str) -> str:
    """Always the same for the same event and receiver: receivers know a repetition by it."""
    return hashlib.blake2b(f"{run.run_id}/{mark}/{receiver}".encode(), digest_size=16).hexdigest()


_ONLY: Mapping[str, str] = {"metric": "RUN_DURATION_SECONDS", "op": "GREATER_THAN"}


def _check_health(notifying: Notifying, where: str) -> None:
    rules = (notifying.health.rules if notifying.health is not None else None) or []
    for rule in rules:
        for name, only in _ONLY.items():
            if (given := getattr(rule, name)) != only:
                raise InvalidParameterValue(f"{where}health: {name} {given[:_SHOWN]!r} is not supported: use {only}.")
        if not 1 <= rule.value <= MAX_SECONDS:
            raise InvalidParameterValue(f"{where}health: value is {rule.value}; it must be 1 or more, and at most ten years.")
    if len(rules) > 1:
        raise InvalidParameterValue(f"{where}health has {len(rules)} rules for RUN_DURATION_SECONDS; give one.")
