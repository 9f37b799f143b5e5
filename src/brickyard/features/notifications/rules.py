"""What a destination may be, what is sent to it, and when an attempt is repeated. Pure: raises only InvalidParameterValue."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from brickyard.domain.clock import rfc3339
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.mailserver import is_address
from brickyard.domain.notifications import Event, Notice
from brickyard.domain.printable import printable
from brickyard.features.notifications.model import Config, DestinationType
from brickyard.plan.notices import MAX_ADDRESSES

MAX_DESTINATIONS = 100  # of a workspace
MAX_NAME = 100
MAX_URL = 2048
MAX_VALUE = 1024
BACKOFF_S = (30, 120, 600, 2700)  # after each attempt that failed: five within an hour
MAX_ATTEMPTS = len(BACKOFF_S) + 1
_SHOWN = 140
_REFUSED = {
    "databricks_app_slack": "use slack with the URL of an incoming webhook",
    "databricks_app_teams": "use microsoft_teams with the URL of a workflow",
}
_KINDS = {
    "generic_webhook": DestinationType.WEBHOOK,
    "slack": DestinationType.SLACK,
    "microsoft_teams": DestinationType.MICROSOFT_TEAMS,
    "pagerduty": DestinationType.PAGERDUTY,
    "email": DestinationType.EMAIL,
}
PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
_INTEGRATION_KEY = re.compile(r"[A-Za-z0-9]{32}")
_SEVERITIES = {Event.FAILURE: "error", Event.DURATION_WARNING: "warning"}  # others are only told: "info"
_OF_APPS = {
    "slack": (("oauth_token", "channel_id"), "give the url of an incoming webhook"),
    "microsoft_teams": (
        ("app_id", "auth_secret", "channel_url", "tenant_id"),
        "give the url of a workflow or an incoming webhook",
    ),
}
_SAID = {
    Event.START: "started",
    Event.SUCCESS: "succeeded",
    Event.FAILURE: "failed",
    Event.DURATION_WARNING: "takes longer than its health rule allows",
}


class Checked(NamedTuple):
    """What a configuration says: its kind, addresses for e-mail, or url, username and password, or an integration key."""

    kind: DestinationType
    addresses: tuple[str, ...]
    secrets: Mapping[str, str]


def checked_name(name: str | None) -> str:
    """The name of a destination."""
    if not (name or "").strip() or len(name or "") > MAX_NAME or printable(name or "") != name:
        raise InvalidParameterValue(f"display_name must have 1 to {MAX_NAME} printable characters.")
    return name or ""


def checked(config: Config | None, known: Checked | None = None) -> Checked:
    """The configuration. `known`: the one that is changed; of the same kind, it keeps what is not given."""
    given = config or Config()
    for name, why in _REFUSED.items():
        if getattr(given, name) is not None:
            raise InvalidParameterValue(f"config.{name} is not supported: {why}.")
    kinds = [name for name in _KINDS if getattr(given, name) is not None]
    if len(kinds) != 1:
        raise InvalidParameterValue(f"config must have exactly one of {', '.join(_KINDS)}.")
    kind = _KINDS[kinds[0]]
    if given.email is not None:
        addresses = tuple(dict.fromkeys(given.email.addresses or ()))
        if not 1 <= len(addresses) <= MAX_ADDRESSES or not all(map(is_address, addresses)):
            raise InvalidParameterValue(f"config.email.addresses must be 1 to {MAX_ADDRESSES} e-mail addresses.")
        return Checked(kind, addresses, {})
    secrets = _secrets(given)
    before = known.secrets if known is not None and known.kind is kind else {}
    if before.get("password") and secrets.get("url", before["url"]) != before["url"] and "password" not in secrets:
        raise InvalidParameterValue(f"config.{kinds[0]}.password is needed to change the url.")
    secrets = {name: value for name, value in {**before, **secrets}.items() if value}
    if kind is DestinationType.PAGERDUTY:
        if not _INTEGRATION_KEY.fullmatch(secrets.get("integration_key", "")):
            raise InvalidParameterValue("config.pagerduty.integration_key must have 32 letters and digits.")
        return Checked(kind, (), secrets)
    _check_url(f"config.{kinds[0]}.url", secrets.get("url", ""))
    if "password" in secrets and "username" not in secrets:
        raise InvalidParameterValue(f"config.{kinds[0]}.password needs a username.")
    return Checked(kind, (), secrets)


def backoff_ms(attempts: int) -> int:
    """How long after so many attempts the next one comes."""
    return 1000 * BACKOFF_S[min(attempts, len(BACKOFF_S)) - 1]


def body(notice: Notice, workspace_id: str) -> bytes:
    """What a webhook gets, as Databricks documents it; `task`, `result` and `message` are additions."""
    sent: dict[str, Any] = {
        "event_type": f"{'task' if notice.task_key else 'jobs'}.{notice.event}",
        "workspace_id": workspace_id,
        "run": {"run_id": notice.run_id},
        "job": {"job_id": notice.job_id, "name": notice.job_name},
    }
    if notice.task_key:
        sent["task"] = {"task_key": notice.task_key, "run_id": notice.task_run_id}
    if notice.result:
        sent["result"] = {"result_state": notice.result, "message": notice.reason}
    return msgspec.json.encode(sent)


def signature(secret: str, body: bytes, *, now_s: int) -> str:
    """The value of the header X-Brickyard-Signature: the time, and the HMAC-SHA256 of the time, a dot and the body."""
    signed = hmac.new(secret.encode(), f"{now_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={now_s},v1={signed}"


def signing_secret(key: bytes, destination_id: str) -> str:
    """The key of a destination's signatures. `key` is the workspace's."""
    return hmac.new(key, f"brickyard notifications {destination_id}".encode(), hashlib.sha256).hexdigest()


def title(notice: Notice) -> str:
    """What has happened, in one line."""
    what = f"Task {notice.task_key} of job" if notice.task_key else "Job"
    said = "was " + notice.result.lower() if notice.result == "CANCELED" else _SAID[notice.event]
    return f"{what} {printable(notice.job_name)[:200]} {said}"


def text(notice: Notice, link: str) -> str:
    """What has happened, for people. `link`: the run's page, or ""."""
    lines = [f"{title(notice)}.", f"Run: {link or notice.run_id}"]
    if notice.reason and notice.event is Event.FAILURE:
        lines.append(f"Reason: {printable(notice.reason)}")
    return "\n".join(lines)


def card(notice: Notice, link: str) -> bytes:
    """What a webhook of Microsoft Teams gets: an adaptive card. Its text is no Markdown, in which names could hide links."""
    lines = [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": each}]} for each in text(notice, link).splitlines()
    ]
    content: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": lines,
    }
    if link:
        content["actions"] = [{"type": "Action.OpenUrl", "title": "Open the run", "url": link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": content}
    return msgspec.json.encode({"type": "message", "attachments": [attachment]})


def incident(notice: Notice, link: str, *, integration_key: str, source: str) -> bytes:
    """What PagerDuty gets: an event of its Events API v2, the same for each attempt."""
    sent: dict[str, Any] = {
        "routing_key": integration_key,
        "event_action": "trigger",
        "dedup_key": notice.notice_id,
        "client": "Brickyard",
        "payload": {
            "summary": title(notice),
            "source": source,
            "severity": _SEVERITIES.get(notice.event, "info"),
            "timestamp": rfc3339(notice.at_ms),
            "custom_details": msgspec.json.decode(body(notice, source)),
        },
    }
    if link:
        sent["links"] = [{"href": link, "text": "Open the run"}]
    return msgspec.json.encode(sent)


def _secrets(config: Config) -> dict[str, str]:
    """The values that are given. An empty one takes the value away."""
    found: dict[str, str | None] = {}
    for kind, (names, why) in _OF_APPS.items():
        for name in names:
            if getattr(getattr(config, kind), name, None):
                raise InvalidParameterValue(f"config.{kind}.{name} is not supported: {why}.")
    if (text_only := config.slack or config.microsoft_teams) is not None:
        found = {"url": text_only.url}
    elif config.pagerduty is not None:
        found = {"integration_key": config.pagerduty.integration_key}
    elif (webhook := config.generic_webhook) is not None:
        found = {"url": webhook.url, "username": webhook.username, "password": webhook.password}
    for name, value in found.items():
        if len(value or "") > MAX_URL or any(ord(each) < 32 for each in value or ""):
            raise InvalidParameterValue(f"config: {name} is too long, or has control characters.")
        if name == "username" and ":" in (value or ""):
            raise InvalidParameterValue("config: username must not have a colon.")
    return {name: value for name, value in found.items() if value is not None}


def _check_url(where: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("https", "http") or not parts.hostname or parts.port == 0
    except ValueError:
        wrong = True
    if wrong or "@" in parts.netloc or parts.fragment or " " in url or not url.isascii():
        raise InvalidParameterValue(f"{where} must be https://HOST/PATH, without a user and a fragment.")
