"""Who hears of a run, and what: the fields of jobs, tasks and runs, and the notices that wait to be sent.

Source: databricks-sdk `service/jobs.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from brickyard.domain.spec import Wire

MAIL = "email"  # the receiver of all e-mail: one SMTP server takes it


class Event(StrEnum):
    """What happens to a run or to a task, as the fields that say who hears of it are called."""

    START = "on_start"
    SUCCESS = "on_success"
    FAILURE = "on_failure"
    DURATION_WARNING = "on_duration_warning_threshold_exceeded"


class Webhook(Wire, frozen=True, kw_only=True):
    """A notification destination."""

    id: str


class WebhookNotifications(Wire, frozen=True, kw_only=True):
    """Destinations by event. `plan.notices` refuses the fields of type Any by name."""

    on_start: list[Webhook] | None = None
    on_success: list[Webhook] | None = None
    on_failure: list[Webhook] | None = None
    on_duration_warning_threshold_exceeded: list[Webhook] | None = None
    on_maintenance_complete: list[Any] | None = None
    on_maintenance_start: list[Any] | None = None
    on_streaming_backlog_exceeded: list[Any] | None = None


class EmailNotifications(Wire, frozen=True, kw_only=True):
    """Addresses by event. `plan.notices` refuses the fields of type Any by name."""

    on_start: list[str] | None = None
    on_success: list[str] | None = None
    on_failure: list[str] | None = None
    on_duration_warning_threshold_exceeded: list[str] | None = None
    no_alert_for_skipped_runs: bool | None = None  # the older place of the one in `NotificationSettings`
    on_maintenance_complete: list[Any] | None = None
    on_maintenance_start: list[Any] | None = None
    on_streaming_backlog_exceeded: list[Any] | None = None


class NotificationSettings(Wire, frozen=True, kw_only=True):
    """Failures of which nobody is told. `alert_on_last_attempt` is for tasks."""

    no_alert_for_canceled_runs: bool | None = None
    no_alert_for_skipped_runs: bool | None = None
    alert_on_last_attempt: bool | None = None


class HealthRule(Wire, frozen=True, kw_only=True):
    """A bound, and what it is for. `plan.notices` knows RUN_DURATION_SECONDS GREATER_THAN."""

    metric: str
    op: str
    value: int


class HealthRules(Wire, frozen=True, kw_only=True):
    rules: list[HealthRule] | None = None


class Notifying(Wire, frozen=True, kw_only=True):
    """The fields that jobs, tasks and submitted runs share."""

    email_notifications: EmailNotifications | None = None
    webhook_notifications: WebhookNotifications | None = None
    notification_settings: NotificationSettings | None = None
    health: HealthRules | None = None


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One message to one receiver: a destination's id, or MAIL with `addresses`. It is sent until the receiver takes it, or
    `attempts` are used up. `task_key` is "" for the run itself; `reason` says why it failed. Times are epoch milliseconds."""

    notice_id: str
    receiver: str
    event: Event
    job_id: int
    job_name: str
    run_id: int
    at_ms: int
    task_key: str = ""
    task_run_id: int = 0
    result: str = ""
    reason: str = ""
    addresses: tuple[str, ...] = ()
    attempts: int = 0
    next_ms: int = 0
