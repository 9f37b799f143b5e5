"""Notification destinations, as stored and as the API has them (databricks-sdk `service/settings.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from brickyard.domain.spec import Wire


class DestinationType(StrEnum):
    EMAIL = "EMAIL"
    MICROSOFT_TEAMS = "MICROSOFT_TEAMS"
    PAGERDUTY = "PAGERDUTY"
    SLACK = "SLACK"
    WEBHOOK = "WEBHOOK"


class GenericWebhookConfig(Wire, frozen=True, kw_only=True):
    """Values are written only; the fields `..._set` say that there is one. `signing_secret` is an addition, for administrators:
    the key of the signature in the header X-Brickyard-Signature."""

    url: str | None = None
    username: str | None = None
    password: str | None = None
    url_set: bool | None = None
    username_set: bool | None = None
    password_set: bool | None = None
    signing_secret: str | None = None


class SlackConfig(Wire, frozen=True, kw_only=True):
    """A webhook of Slack. `rules` refuses the fields of type Any by name."""

    url: str | None = None
    url_set: bool | None = None
    oauth_token: Any = None
    oauth_token_set: bool | None = None
    channel_id: Any = None
    channel_id_set: bool | None = None


class TeamsConfig(Wire, frozen=True, kw_only=True):
    """A webhook of Microsoft Teams. `rules` refuses the fields of type Any by name."""

    url: str | None = None
    url_set: bool | None = None
    app_id: Any = None
    app_id_set: bool | None = None
    auth_secret: Any = None
    auth_secret_set: bool | None = None
    channel_url: Any = None
    channel_url_set: bool | None = None
    tenant_id: Any = None
    tenant_id_set: bool | None = None


class PagerdutyConfig(Wire, frozen=True, kw_only=True):
    """A service of PagerDuty, by the key of its integration with the Events API v2."""

    integration_key: str | None = None
    integration_key_set: bool | None = None


class EmailConfig(Wire, frozen=True, kw_only=True):
    addresses: list[str] | None = None


class Config(Wire, frozen=True, kw_only=True):
    """One of these. `rules` refuses the fields of type Any by name."""

    generic_webhook: GenericWebhookConfig | None = None
    slack: SlackConfig | None = None
    email: EmailConfig | None = None
    microsoft_teams: TeamsConfig | None = None
    pagerduty: PagerdutyConfig | None = None
    databricks_app_slack: dict[str, Any] | None = None
    databricks_app_teams: dict[str, Any] | None = None


class CreateDestination(Wire, frozen=True, kw_only=True):
    display_name: str | None = None
    config: Config | None = None


class DestinationId(Wire, frozen=True, kw_only=True):
    id: str


class UpdateDestination(DestinationId, frozen=True, kw_only=True):
    """The fields to change."""

    display_name: str | None = None
    config: Config | None = None


class ListDestinations(Wire, frozen=True, kw_only=True):
    page_size: int | None = None
    page_token: str | None = None


class Delivery(Wire, frozen=True, kw_only=True):
    """An addition: how sending to the destination goes. `waiting` is how many notices wait; times are epoch milliseconds."""

    waiting: int = 0
    last_success_time: int | None = None
    last_failure_time: int | None = None
    last_failure: str | None = None
    undelivered: int = 0  # notices that were given up


class Destination(Wire, frozen=True, kw_only=True):
    """A destination as clients see it; a list shows no config."""

    id: str
    display_name: str
    destination_type: DestinationType
    config: Config | None = None
    delivery: Delivery | None = None


class DestinationList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    results: list[Destination]
    next_page_token: str | None = None


class DestinationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A destination as it is stored. `sealed`: its url, username and password, or its integration key
    (`storage.sealer`)."""

    destination_id: str
    display_name: str
    destination_type: DestinationType
    created_ms: int
    addresses: tuple[str, ...] = ()
    sealed: str = ""
    success_ms: int = 0
    failure_ms: int = 0
    failure: str = ""
    undelivered: int = 0


class Undelivered(Exception):
    """An attempt to send that failed. The message says why, in a few words."""
