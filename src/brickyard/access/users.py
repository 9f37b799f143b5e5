"""New identities and groups."""

from __future__ import annotations

from brickyard.domain.clock import Ids
from brickyard.domain.identity import GroupRow, UserRow, fold_name


def new_user(user_name: str, *, ids: Ids, now_ms: int, display_name: str = "") -> UserRow:
    """An active user with a new id. Names are in lower case, as on Databricks; users of earlier versions keep theirs."""
    return UserRow(
        user_name=fold_name(user_name),
        user_id=new_id(ids),
        display_name=display_name or user_name.partition("@")[0],
        created_ms=now_ms,
        changed_ms=now_ms,
    )


def new_group(name: str, *, ids: Ids, now_ms: int) -> GroupRow:
    """A group with a new id."""
    return GroupRow(group_id=new_id(ids), display_name=name, created_ms=now_ms, changed_ms=now_ms)


def new_id(ids: Ids) -> str:
    """An id in SCIM's format for an identity or a group: a number of 16 digits, which nobody had before or will have again."""
    return str(10**15 + int(ids.hex(16), 16) % (9 * 10**15))
