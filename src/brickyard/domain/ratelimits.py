"""Rate limits: how many calls a second one principal may make, by the operations' names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

OFF = "off"
EVERY = "*"  # all operations that no other limit names

# Calls a second that Databricks documents for a whole workspace ("Resource limits"); here each principal has them. A name is an
# operation's (`jobs.runs_get`) or what its name begins with (`dbfs`); the longest that fits counts.
DOCUMENTED: Mapping[str, float] = MappingProxyType(
    {
        "dbfs": 30,
        "jobs.runs_get": 100,
        "jobs.runs_submit": 35,
        "permissions": 30,
        "permissions.get": 100,
        "secrets": 1_100,
        "token_management": 40,
        "workspace.export": 60,
        "workspace.import": 30,
    }
)


def rates(text: str) -> dict[str, float]:
    """The limits by name, from the setting: "off", or changes of the documented ones (`dbfs=100, clusters.create=5, *=50`; 0: no
    limit). Raises ValueError with the rule."""
    if text.strip().lower() == OFF:
        return {}
    found = dict(DOCUMENTED)
    for entry in filter(None, (each.strip() for each in text.split(","))):
        name, _, number = entry.partition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = math.nan
        if not name.strip() or not 0 <= rate < math.inf:
            raise ValueError(f"{OFF}, or NAME=CALLS_PER_SECOND entries like dbfs=100, comma-separated")
        found[name.strip()] = rate
    return {name: rate for name, rate in found.items() if rate}


def covers(name: str, operation: str) -> bool:
    """Whether a limit's name fits an operation."""
    return name in (EVERY, operation) or operation.startswith(f"{name}.")


def limit_of(operation: str, names: Mapping[str, float]) -> str | None:
    """The name of the limit that counts for an operation: the longest that fits."""
    return max((name for name in names if covers(name, operation)), key=lambda name: (name != EVERY, len(name)), default=None)
