"""The settings that the workspace-conf API knows, and what they may be. Values are text.

Some settings act (`access.conf`). Others name what is always so here: they answer with that, and can be set to nothing else.
Sources: the documentation of Terraform's `databricks_workspace_conf`, and the messages that its provider looks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from brickyard.access import conf
from brickyard.domain.errors import InvalidParameterValue

MAX_TOKEN_DAYS = 730
_SHOWN = 100


class Key(NamedTuple):
    """A setting that acts. `default`: its value while none was set; None: it has none then."""

    default: str | None
    allows: Callable[[str], bool]
    rule: str


def _is_switch(value: str) -> bool:
    return value.lower() in ("true", "false")


def _is_days(value: str) -> bool:
    return not value or (value.isascii() and value.isdigit() and 1 <= int(value[:9]) <= MAX_TOKEN_DAYS)


KEYS: Mapping[str, Key] = {
    conf.IP_ACCESS_LISTS: Key("false", _is_switch, "It must be true or false."),
    conf.TOKENS: Key("true", _is_switch, "It must be true or false."),
    conf.RESULTS_DOWNLOAD: Key("true", _is_switch, "It must be true or false."),
    conf.TOKEN_DAYS: Key(None, _is_days, f"It must be a number of days from 1 to {MAX_TOKEN_DAYS}, or empty for no limit."),
}
# What is so in every workspace of Brickyard.
CONSTANTS: Mapping[str, str] = {
    "enableDeprecatedClusterNamedInitScripts": "false",
    "enableDeprecatedGlobalInitScripts": "false",
    "enableGp3": "false",
    "enableWebTerminal": "false",
    "enableWorkspaceFilesystem": "true",
    "enforceClusterViewAcls": "true",
    "enforceWorkspaceViewAcls": "true",
    "enableJobViewAcls": "true",
    "enable-X-Content-Type-Options": "true",
}


def check_keys(keys: Iterable[str]) -> None:
    """Raises InvalidParameterValue, in the words that Terraform's provider reads the keys from."""
    if unknown := sorted({key for key in keys if key not in KEYS and key not in CONSTANTS}):
        shown = [key[:_SHOWN] for key in unknown[:_SHOWN]]
        raise InvalidParameterValue(f"Invalid keys: {json.dumps(shown, ensure_ascii=False, separators=(',', ':'))}")


def checked(values: Mapping[str, object]) -> dict[str, str]:
    """The settings to change, as text. Raises InvalidParameterValue."""
    check_keys(values)
    given = {key: _text(value) for key, value in values.items()}
    wrong = {key: value for key, value in given.items() if not _allows(key, value)}
    if wrong:
        reasons = " ".join(f"{key}: {_rule(key)}" for key in sorted(wrong))
        shown = {key: value[:_SHOWN] for key, value in sorted(wrong.items())}
        listed = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        raise InvalidParameterValue(f"Some values are not allowed: {listed}. {reasons}")
    return given


def shown(key: str, value: str | None) -> str | None:
    """The value of a known setting; `value`: what was set, or None."""
    return CONSTANTS[key] if key in CONSTANTS else value or KEYS[key].default


def _text(value: object) -> str:
    """A value as text: clients send booleans and numbers also as such."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value.strip()
    return str(value)


def _allows(key: str, value: str) -> bool:
    return value.lower() == CONSTANTS[key] if key in CONSTANTS else KEYS[key].allows(value)


def _rule(key: str) -> str:
    return f"It is always {CONSTANTS[key]} here." if key in CONSTANTS else KEYS[key].rule
