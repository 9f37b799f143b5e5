"""Notification destinations, and what jobs tell to them, through the official SDK."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, NotFound, PermissionDenied
from databricks.sdk.service import jobs
from databricks.sdk.service.settings import Config, DestinationType, EmailConfig, GenericWebhookConfig, PagerdutyConfig

from brickyard.providers.simulated import SimulatedProvider
from tests.contract.test_kept_jobs_sdk import begin, drivers, job, task
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.server import Server
from tests.support.smtp import Smtp
from tests.support.tokens import create

__all__ = ["drivers"]


class Hook(ThreadingHTTPServer):
    """Keeps what is posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.events: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def of_run(self, run_id: int) -> list[str]:
        events = [each for each in self.events if each["run"]["run_id"] == run_id]
        return sorted(each["event_type"] + each.get("task", {}).get("task_key", "") for each in events)


class _Request(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        self.server.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    made = Hook()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def smtp() -> Iterator[Smtp]:
    with Smtp() as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, machines: SimulatedProvider, smtp: Smtp) -> Iterator[Server]:
    settings: dict[str, Any] = {
        "smtp_url": f"smtp://127.0.0.1:{smtp.port}?tls=off",
        "smtp_from": "brickyard@example.com",
        "notification_networks": "127.0.0.0/8",
    }
    place: Path = tmp_path_factory.mktemp("workspace")
    with Server.running(place, provider="simulated", instances=machines, **settings) as running:
        yield running


def test_destinations(server: Server, w: WorkspaceClient, golden: Golden) -> None:
    config = Config(generic_webhook=GenericWebhookConfig(url="https://example.com/", username="u", password="p"))
    made = w.notification_destinations.create(config=config, display_name="ops")
    assert made.id
    found = w.notification_destinations.get(made.id)
    assert (found.display_name, found.destination_type) == ("ops", DestinationType.WEBHOOK)
    assert found.config and found.config.generic_webhook
    assert found.config.generic_webhook == GenericWebhookConfig(url_set=True, username_set=True, password_set=True)
    mail = Config(email=EmailConfig(addresses=["a@example.com"]))
    changed = w.notification_destinations.update(made.id, config=mail, display_name="team")
    assert changed.destination_type is DestinationType.EMAIL
    second = w.notification_destinations.create(config=mail, display_name="second")
    assert [each.display_name for each in w.notification_destinations.list(page_size=1)] == ["team", "second"]
    with golden.refused(InvalidParameterValue, "pagerduty"):
        w.notification_destinations.create(config=Config(pagerduty=PagerdutyConfig(integration_key="k")), display_name="p")
    on_call = w.notification_destinations.create(
        config=Config(pagerduty=PagerdutyConfig(integration_key="k" * 32)), display_name="p"
    )
    assert on_call.id and on_call.destination_type is DestinationType.PAGERDUTY
    assert on_call.config and on_call.config.as_dict() == {"pagerduty": {"integration_key_set": True}}
    w.notification_destinations.delete(on_call.id)
    w.users.create(user_name="reader@example.com")
    user = server.client(create(w, "reader@example.com", comment="", days=None))
    assert [each.id for each in user.notification_destinations.list()] == [made.id, second.id]
    with pytest.raises(PermissionDenied):
        user.notification_destinations.delete(made.id)
    for each in (made, second):
        w.notification_destinations.delete(str(each.id))
    with pytest.raises(NotFound):
        w.notification_destinations.get(made.id)


def test_a_job_tells_how_its_runs_go(w: WorkspaceClient, hook: Hook, smtp: Smtp, golden: Golden) -> None:
    config = Config(generic_webhook=GenericWebhookConfig(url=hook.url))
    target = w.notification_destinations.create(config=config, display_name="hook").id
    hooks = [jobs.Webhook(id=str(target))]
    everything = jobs.WebhookNotifications(on_start=hooks, on_success=hooks, on_failure=hooks)
    mails = jobs.JobEmailNotifications(on_failure=["a@example.com"], no_alert_for_skipped_runs=True)
    good = job(w, task(w, "a"), webhook_notifications=everything)
    of_task = jobs.WebhookNotifications(on_failure=hooks, on_duration_warning_threshold_exceeded=hooks)
    rule = jobs.JobsHealthRule(jobs.JobsHealthMetric.RUN_DURATION_SECONDS, jobs.JobsHealthOperator.GREATER_THAN, 1)
    bad = job(
        w,
        task(w, "b", source="fail", webhook_notifications=of_task),
        task(w, "c", source="slow", webhook_notifications=of_task, health=jobs.JobsHealthRules(rules=[rule])),
        email_notifications=mails,
        notification_settings=jobs.JobNotificationSettings(no_alert_for_canceled_runs=True),
        webhook_notifications=everything,
    )
    found = w.jobs.get(bad).settings
    assert found
    assert found.email_notifications and found.email_notifications.as_dict() == mails.as_dict()
    assert found.webhook_notifications and found.webhook_notifications.as_dict() == everything.as_dict()
    run, failing = begin(w, good), begin(w, bad)
    until(lambda: hook.of_run(run) == ["jobs.on_start", "jobs.on_success"])
    events = ["jobs.on_start", "task.on_duration_warning_threshold_exceededc", "task.on_failureb"]
    until(lambda: hook.of_run(failing) == events)
    shown: Any = w.api_client.do("GET", "/api/2.2/jobs/runs/get", query={"run_id": failing})
    assert [each["task_key"] for each in shown["tasks"] if "duration_warning_time" in each] == ["c"]
    w.jobs.cancel_run(failing)
    until(lambda: hook.of_run(failing) == [*events, "task.on_failurec"])
    assert smtp.messages == [], "a cancelled run is not told"
    alone = job(w, task(w, "d", source="fail"), email_notifications=mails)
    begin(w, alone)
    until(lambda: smtp.recipients == [["a@example.com"]])
    with golden.refused(InvalidParameterValue, "webhook_notifications"):
        job(w, task(w, "a"), webhook_notifications=jobs.WebhookNotifications(on_start=[jobs.Webhook(id="nobody")]))
    w.notification_destinations.delete(str(target))
    for job_id in (good, bad, alone):
        w.jobs.delete(job_id)
