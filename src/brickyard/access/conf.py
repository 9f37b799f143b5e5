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
    return _is_on(tx, IP_ACCESS_LISTS, default=False)


def has_tokens(tx: Tx) -> bool:
    """Whether there may be personal access tokens."""
    return _is_on(tx, TOKENS, default=True)


def has_results_download(tx: Tx) -> bool:
    """Whether the web page offers to save results of commands."""
    return _is_on(tx, RESULTS_DOWNLOAD, default=True)


def most_token_s(tx: Tx) -> int | None:
    """For how many seconds a new personal access token may count at most; None: without a limit."""
    days = get(tx, TOKEN_DAYS)
    return int(days) * DAY_S if days else None


def _is_on(tx: Tx, key: str, *, default: bool) -> bool:
    """Whether a switch is on. Its value is kept in the letters in which it was sent: Terraform compares them."""
    value = get(tx, key)
    return default if value is None else value.lower() == "true"
