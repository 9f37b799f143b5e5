"""The workspace's own settings: what administrators set through the workspace-conf API. Most of them say who may call.

They are facts about the workspace, beside its id. Every commit that changes one tells all servers to forget whom they know, as
one that changes a token does.
"""

from __future__ import annotations

from brickyard.store.tx import Tx

IP_ACCESS_LISTS = "enableIpAccessLists"
TOKENS = "enableTokensConfig"
TOKEN_DAYS = "maxTokenLifetimeDays"  # noqa: S105 - as above
RESULTS_DOWNLOAD = "enableResultsDownloading"
_PREFIX = "conf:"
DAY_S = 86_400


def hold(tx: Tx) -> None:
    """Takes turns with whoever else changes settings or IP access lists, until the commit: what is checked of all of them holds
    then."""
    tx.lock("workspace conf")


def get(tx: Tx, key: str) -> str | None:
    """What was set; None if nothing was."""
    return tx.get_meta(_PREFIX + key)


def put(tx: Tx, key: str, value: str | None) -> None:
    """Sets it; None: as if it had never been set."""
    if value is None:
        tx.delete_meta(_PREFIX + key)
    else:
        tx.set_meta(_PREFIX + key, value)
    tx.changed.identity = True


def has_ip_access_lists(tx: Tx) -> bool:
    """Whether IP access lists are in force."""
    return get(tx, IP_ACCESS_LISTS) == "true"


def has_tokens(tx: Tx) -> bool:
    """Whether there may be personal access tokens."""
    return get(tx, TOKENS) != "false"


def has_results_download(tx: Tx) -> bool:
    """Whether the web page offers to save results of commands."""
    return get(tx, RESULTS_DOWNLOAD) != "false"


def most_token_s(tx: Tx) -> int | None:
    """For how many seconds a new personal access token may count at most; None: without a limit."""
    days = get(tx, TOKEN_DAYS)
    return int(days) * DAY_S if days else None
