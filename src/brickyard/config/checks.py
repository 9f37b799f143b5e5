"""Which values settings may have."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec

from brickyard.config import providernames
from brickyard.config.settings import MAX_NODES, SECRET, SESSION_IDLE_S, ConfigError, Settings
from brickyard.config.urls import is_database, is_external, is_origin
from brickyard.domain.mailserver import is_address
from brickyard.domain.ratelimits import rates
from brickyard.domain.secrets import key_entries
from brickyard.domain.signin import group_names, trusted_url, words
from brickyard.machine.outbound import networks
from brickyard.storage import urls


def wrong(name: str, value: Any, sources: Mapping[str, str], rule: str) -> ConfigError:
    """The error for one setting, without the values of secrets."""
    shown = "wrong" if name in SECRET else str(value).lower() if isinstance(value, bool) else repr(value)
    return ConfigError(f"{sources.get(name, name)} is {shown}; {name} must be {rule}.")


def kind(expected: Any) -> str:
    """Describes a valid value of that type."""
    choices = get_args(expected)
    if choices and all(isinstance(choice, str) for choice in choices):
        return f"{', '.join(choices[:-1])} or {choices[-1]}"
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}
    return next((words for kind, words in kinds.items() if kind is expected or kind in choices), "of another type")


MAX_NAME = 60  # characters, in the page's rail


def check(settings: Settings, sources: Mapping[str, str]) -> None:
    """Raises ConfigError for values that no server can use."""
    for name, meaning in (("port", "0 picks a free one"), ("connect_port", "0 for none"), ("agent_port", "0 for none")):
        if not 0 <= (getattr(settings, name) or 0) <= 65535:
            raise wrong(name, getattr(settings, name), sources, f"between 0 ({meaning}) and 65535")
    for name in ("host", "admin_user"):
        if not getattr(settings, name).strip():
            raise wrong(name, getattr(settings, name), sources, "non-empty text")
    if rule := providernames.problem(settings.provider):
        raise wrong("provider", settings.provider, sources, rule)
    _check_database(settings, sources)
    try:
        urls.directory(settings.storage_url)
    except ValueError as error:
        raise wrong("storage_url", settings.storage_url, sources, str(error)) from error
    if not is_origin(settings.public_url):
        raise wrong("public_url", settings.public_url, sources, "http://HOST:PORT or https://HOST:PORT, with nothing after it")
    if not is_external(settings.external_url):
        rule = "https://HOST or https://HOST:PORT (or http), without a path: the workspace needs a name or a port of its own"
        raise wrong("external_url", settings.external_url, sources, rule)
    _check_tracing(settings, sources)
    _check_keys(settings, sources)
    _check_connect(settings)
    _check_nodes(settings, sources)
    if settings.ends_with is not None and settings.ends_with <= 0:
        raise wrong("ends_with", settings.ends_with, sources, "a process id")
    _check_sessions(settings, sources)
    _check_room(settings)
    _check_proxies(settings, sources)
    _check_rates(settings, sources)
    if len(settings.workspace_name) > MAX_NAME or not settings.workspace_name.isprintable():
        raise wrong("workspace_name", settings.workspace_name, sources, f"at most {MAX_NAME} printable characters")
    _check_network(settings, sources)
    _check_oidc(settings, sources)
    _check_notifications(settings, sources)
    for name in (
        "cpu_overcommit",
        "memory_overcommit",
        "orphan_grace_s",
        "agent_silence_s",
        "spark_silence_s",
        "driver_give_up_s",
        "log_delivery_s",
        "launch_timeout_s",
        "init_script_timeout_s",
        "autoscale_up_after_s",
        "autoscale_down_after_s",
        "session_lifetime_s",
        "audit_log_days",
        "log_days",
    ):
        if not 0 < getattr(settings, name) < math.inf:
            raise wrong(name, getattr(settings, name), sources, "a number above 0")


def _check_tracing(settings: Settings, sources: Mapping[str, str]) -> None:
    parts = urlsplit(settings.tracing_endpoint)
    usable = parts.scheme in ("http", "https") and parts.hostname and not (parts.username or parts.query or parts.fragment)
    if settings.tracing_endpoint and not usable:
        rule = "http://HOST:PORT or https://HOST:PORT, without a user"
        raise wrong("tracing_endpoint", settings.tracing_endpoint, sources, rule)
    if not 0 <= settings.tracing_ratio <= 1:
        raise wrong("tracing_ratio", settings.tracing_ratio, sources, "between 0 and 1")


def _check_nodes(settings: Settings, sources: Mapping[str, str]) -> None:
    give_up_s, silence_s = settings.driver_give_up_s, settings.spark_silence_s
    if give_up_s < silence_s:
        raise ConfigError(f"driver_give_up_s is {give_up_s:g}; it must be at least spark_silence_s ({silence_s:g}).")
    if not 1 <= settings.max_nodes <= MAX_NODES:
        raise wrong("max_nodes", settings.max_nodes, sources, f"between 1 and {MAX_NODES}")


def _check_database(settings: Settings, sources: Mapping[str, str]) -> None:
    if not is_database(settings.database_url):
        raise wrong(
            "database_url", "", sources, "postgresql://user:password@host/database, or omitted for SQLite in the data directory"
        )
    if not 0 <= settings.database_wait_s < math.inf:
        raise wrong("database_wait_s", settings.database_wait_s, sources, "a number, 0 or more")


def _check_rates(settings: Settings, sources: Mapping[str, str]) -> None:
    try:
        rates(settings.rate_limits)
    except ValueError as error:
        raise wrong("rate_limits", settings.rate_limits, sources, str(error)) from error


def _check_sessions(settings: Settings, sources: Mapping[str, str]) -> None:
    if not SESSION_IDLE_S <= settings.session_idle_s < math.inf:  # use is recorded once a minute
        raise wrong("session_idle_s", settings.session_idle_s, sources, f"a number of {SESSION_IDLE_S:g} or more")


def _check_notifications(settings: Settings, sources: Mapping[str, str]) -> None:
    try:
        _ = settings.mail_server
    except ValueError as error:
        raise wrong("smtp_url", "", sources, str(error)) from error
    if settings.smtp_from and not is_address(settings.smtp_from):
        raise wrong("smtp_from", settings.smtp_from, sources, "an e-mail address such as brickyard@example.com")
    if bool(settings.smtp_url) != bool(settings.smtp_from):
        raise ConfigError("smtp_url and smtp_from belong together: give both, or neither.")
    try:
        networks(settings.notification_networks)
    except ValueError as error:
        rule = "IP addresses or networks (10.0.0.0/8), comma-separated"
        raise wrong("notification_networks", settings.notification_networks, sources, rule) from error


def _check_oidc(settings: Settings, sources: Mapping[str, str]) -> None:
    changed = [field.name for field in msgspec.structs.fields(Settings) if getattr(settings, field.name) != field.default]
    named = [name for name in changed if name.startswith("oidc_")]
    if not settings.oidc_issuer:
        if named:
            raise ConfigError(f"{sources[named[0]]} needs oidc_issuer, the URL of the identity provider.")
        return
    if not trusted_url(settings.oidc_issuer) or "?" in settings.oidc_issuer:
        rule = "https://HOST or https://HOST/PATH, exactly as the provider writes it (http on this machine only)"
        raise wrong("oidc_issuer", settings.oidc_issuer.rpartition("@")[2], sources, rule)
    for name in ("oidc_client_id", "oidc_user_claim", "oidc_groups_claim"):
        if not getattr(settings, name).strip():
            raise wrong(name, getattr(settings, name), sources, "non-empty text where oidc_issuer is set")
    if "openid" not in words(settings.oidc_scopes):
        raise wrong("oidc_scopes", settings.oidc_scopes, sources, "a list with openid, such as openid profile email")
    if settings.oidc_create_users and not settings.oidc_domains.strip():
        rule = "false, unless oidc_domains says whose e-mail addresses may come in (* for all that the provider has)"
        raise wrong("oidc_create_users", settings.oidc_create_users, sources, rule)
    try:
        groups = group_names(settings.oidc_groups)
    except ValueError as error:
        raise wrong("oidc_groups", settings.oidc_groups, sources, str(error)) from error
    if "users" in {name.lower() for name in groups.values()}:
        raise wrong("oidc_groups", settings.oidc_groups, sources, "without the group users, which everyone is in")


def _check_keys(settings: Settings, sources: Mapping[str, str]) -> None:
    try:
        key_entries(settings.encryption_key)
    except ValueError as error:
        raise wrong("encryption_key", "", sources, "64 hex digits, such as `openssl rand -hex 32` prints") from error


def _check_room(settings: Settings) -> None:
    if not 0 <= settings.memory_guard_share <= 1:
        raise ConfigError(f"memory_guard_share is {settings.memory_guard_share}; it must be a number from 0 to 1.")
    if not 0 <= settings.min_free_disk_gb < math.inf:
        raise ConfigError(f"min_free_disk_gb is {settings.min_free_disk_gb}; it must be a number, 0 or more.")
    if not 0 <= settings.snapshot_days < math.inf:
        raise ConfigError(f"snapshot_days is {settings.snapshot_days}; it must be a number, 0 or more (0: forever).")
    for name in ("node_disk_gb", "dbfs_gb", "snapshot_gb", "snapshots_gb"):
        if (room := getattr(settings, name)) is not None and not 0 < room < math.inf:
            raise ConfigError(f"{name} is {room}; it must be a number above 0. Leave it out for half of the disk.")


def _check_connect(settings: Settings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigError("tls_cert and tls_key belong together: give both, or neither.")


def _check_proxies(settings: Settings, sources: Mapping[str, str]) -> None:
    for proxy in filter(None, settings.trusted_proxies.split(",")):
        try:
            ipaddress.ip_network(proxy.strip())
        except ValueError as error:
            rule = "IP addresses or networks (10.0.0.0/8), comma-separated"
            raise wrong("trusted_proxies", settings.trusted_proxies, sources, rule) from error


def _check_network(settings: Settings, sources: Mapping[str, str]) -> None:
    for place in settings.allowed_places:
        address, _, port = place.rpartition(":")
        try:
            good = ipaddress.ip_address(address).version == 4 and 0 < int(port) <= 65535
        except ValueError:
            good = False
        if not good:
            rule = "IPv4 addresses with a port, like 127.0.0.1:3141, comma-separated"
            raise wrong("network_allow", settings.network_allow, sources, rule)
    if not all(is_origin(url) for url in settings.credential_endpoints):
        rule = "URLs of a scheme, a host and perhaps a port, like https://minio.example:9000, comma-separated"
        raise wrong("machine_credentials_endpoints", settings.machine_credentials_endpoints, sources, rule)
    try:
        _ = settings.allowed_port_addresses
    except ValueError as error:
        rule = "IP addresses of this machine, like 10.0.0.5, comma-separated (0.0.0.0: all)"
        raise wrong("port_addresses", settings.port_addresses, sources, rule) from error
    if settings.network == "isolated" and settings.isolation == "off":
        raise ConfigError('network = "isolated" requires isolation, but isolation is off: set isolation to auto or required.')
