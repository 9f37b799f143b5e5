"""Rows of identities and groups. Writers of identities and groups take turns by `Tx.lock(LOCK)`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, delete, exists, func, insert, literal, or_, select, update
from sqlalchemy.sql.expression import Select

from brickyard.domain.identity import ADMINS_ID, USERS_ID, GroupRow, IdentityKind, UserRow, fold_name
from brickyard.store.changeset import Changes
from brickyard.store.tables import groups, members, users

LOCK = "identity"
_MOST_AT_ONCE = 500  # values in one statement

_BY_NAME = select(users.c.doc).where(users.c.folded == bindparam("name"))


def _groups_of_member() -> Select[Any]:
    """Directly, through other groups, and the group of everyone. Would end also where groups contained each other."""
    above = select(members.c.group_id).where(members.c.member_id == bindparam("member")).cte("above", recursive=True)
    above = above.union(select(members.c.group_id).join(above, members.c.member_id == above.c.group_id))
    return (
        select(groups.c.doc)
        .where(or_(groups.c.group_id == USERS_ID, groups.c.group_id.in_(select(above.c.group_id))))
        .order_by(groups.c.folded)
    )


def _any_active_admin() -> Select[Any]:
    below = select(literal(ADMINS_ID).label("id")).cte("below", recursive=True)
    below = below.union(select(members.c.member_id).join(below, members.c.group_id == below.c.id))
    return select(exists(select(users.c.user_id).where(users.c.active, users.c.user_id.in_(select(below.c.id)))))


_ALL_OF_MEMBER, _ANY_ADMIN = _groups_of_member(), _any_active_admin()
_user = msgspec.json.Decoder(UserRow).decode
_group = msgspec.json.Decoder(GroupRow).decode


class UserRows:
    """Identities within one transaction."""

    def __init__(self, connection: Connection, *, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed

    def get(self, user_name: str) -> UserRow | None:
        """The identity with that name, in any case."""
        doc = self._connection.execute(_BY_NAME, {"name": fold_name(user_name)}).scalar()
        return None if doc is None else _user(doc)

    def by_id(self, user_id: str) -> UserRow | None:
        doc = self._connection.execute(select(users.c.doc).where(users.c.user_id == user_id)).scalar()
        return None if doc is None else _user(doc)

    def put(self, row: UserRow) -> None:
        """Writes an identity, new or not."""
        self._changed.identity = True
        values = {
            "user_id": row.user_id,
            "folded": fold_name(row.user_name),
            "kind": row.kind.value,
            "active": row.active,
            "external_id": row.external_id,
            "created_ms": row.created_ms,
            "doc": msgspec.json.encode(row).decode(),
        }
        if self._connection.execute(update(users).where(users.c.user_id == row.user_id).values(values)).rowcount == 0:
            self._connection.execute(insert(users), values)

    def delete(self, user_id: str) -> None:
        """Deletes an identity with its memberships. Its tokens are rows of their own."""
        self._changed.identity = True
        self._connection.execute(delete(members).where(members.c.member_id == user_id))
        self._connection.execute(delete(users).where(users.c.user_id == user_id))

    def count(self, kind: IdentityKind) -> int:
        query = select(func.count()).select_from(users).where(users.c.kind == kind.value)
        return int(self._connection.execute(query).scalar() or 0)

    def page(self, kind: IdentityKind, *, offset: int, limit: int) -> list[UserRow]:
        """Identities in the order in which they were created."""
        ids = select(users.c.user_id).where(users.c.kind == kind.value).order_by(users.c.created_ms, users.c.user_id)
        of_page = users.c.user_id.in_(select(ids.offset(offset).limit(limit).subquery().c.user_id))
        query = select(users.c.doc).where(of_page).order_by(users.c.created_ms, users.c.user_id)
        return [_user(doc) for doc in self._connection.execute(query).scalars()]

    def all(self, kind: IdentityKind, *, external_id: str = "") -> list[UserRow]:
        """Identities in the order in which they were created; with `external_id`, only those that have it."""
        query = select(users.c.doc).where(users.c.kind == kind.value).order_by(users.c.created_ms, users.c.user_id)
        if external_id:
            query = query.where(users.c.external_id == external_id)
        return [_user(doc) for doc in self._connection.execute(query).scalars()]

    def many(self, user_ids: Collection[str]) -> dict[str, UserRow]:
        """Those of the identities that exist, by id."""
        found: dict[str, UserRow] = {}
        for some in _portions(user_ids):
            docs = self._connection.execute(select(users.c.doc).where(users.c.user_id.in_(some))).scalars()
            found.update((row.user_id, row) for row in map(_user, docs))
        return found


class GroupRows:
    """Groups and their members within one transaction."""

    def __init__(self, connection: Connection, *, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed

    def get(self, group_id: str) -> GroupRow | None:
        doc = self._connection.execute(select(groups.c.doc).where(groups.c.group_id == group_id)).scalar()
        return None if doc is None else _group(doc)

    def by_name(self, display_name: str) -> GroupRow | None:
        """The group with that name, in any case."""
        doc = self._connection.execute(select(groups.c.doc).where(groups.c.folded == fold_name(display_name))).scalar()
        return None if doc is None else _group(doc)

    def put(self, row: GroupRow) -> None:
        """Writes a group, new or not."""
        self._changed.identity = True
        values = {
            "group_id": row.group_id,
            "folded": fold_name(row.display_name),
            "external_id": row.external_id,
            "created_ms": row.created_ms,
            "doc": msgspec.json.encode(row).decode(),
        }
        if self._connection.execute(update(groups).where(groups.c.group_id == row.group_id).values(values)).rowcount == 0:
            self._connection.execute(insert(groups), values)

    def of(self, member_id: str) -> list[GroupRow]:
        """All groups that an identity is in: directly, through other groups, and the group of everyone."""
        return [_group(doc) for doc in self._connection.execute(_ALL_OF_MEMBER, {"member": member_id}).scalars()]

    def delete(self, group_id: str) -> None:
        """Deletes a group with its memberships, of both kinds."""
        self._changed.identity = True
        self._connection.execute(delete(members).where(or_(members.c.group_id == group_id, members.c.member_id == group_id)))
        self._connection.execute(delete(groups).where(groups.c.group_id == group_id))

    def all(self, *, external_id: str = "") -> list[GroupRow]:
        """Groups in the order in which they were created; with `external_id`, only those that have it."""
        query = select(groups.c.doc).order_by(groups.c.created_ms, groups.c.group_id)
        if external_id:
            query = query.where(groups.c.external_id == external_id)
        return [_group(doc) for doc in self._connection.execute(query).scalars()]

    def count(self) -> int:
        return int(self._connection.execute(select(func.count()).select_from(groups)).scalar() or 0)

    def page(self, *, offset: int, limit: int) -> list[GroupRow]:
        """Groups in the order in which they were created."""
        query = select(groups.c.doc).order_by(groups.c.created_ms, groups.c.group_id).offset(offset).limit(limit)
        return [_group(doc) for doc in self._connection.execute(query).scalars()]

    def many(self, group_ids: Collection[str]) -> dict[str, GroupRow]:
        """Those of the groups that exist, by id."""
        found: dict[str, GroupRow] = {}
        for some in _portions(group_ids):
            docs = self._connection.execute(select(groups.c.doc).where(groups.c.group_id.in_(some))).scalars()
            found.update((row.group_id, row) for row in map(_group, docs))
        return found

    def members(self, group_ids: Collection[str]) -> dict[str, list[str]]:
        """The ids of the direct members of each group, in order."""
        found: dict[str, list[str]] = {}
        for some in _portions(group_ids):
            query = select(members).where(members.c.group_id.in_(some)).order_by(members.c.group_id, members.c.member_id)
            for row in self._connection.execute(query):
                found.setdefault(row.group_id, []).append(row.member_id)
        return found

    def above(self, member_ids: Collection[str]) -> dict[str, set[str]]:
        """The ids of the groups that have each of these themselves."""
        found: dict[str, set[str]] = {}
        for some in _portions(member_ids):
            for row in self._connection.execute(select(members).where(members.c.member_id.in_(some))):
                found.setdefault(row.member_id, set()).add(row.group_id)
        return found

    def add(self, group_id: str, member_ids: Collection[str]) -> None:
        """Adds members. Those that the group has already are left as they are."""
        new = sorted(set(member_ids) - self._present(group_id, member_ids))
        if new:
            self._changed.identity = True
            self._connection.execute(insert(members), [{"group_id": group_id, "member_id": each} for each in new])

    def remove(self, group_id: str, member_ids: Collection[str]) -> None:
        """Removes members; ids that are no members count for nothing."""
        self._changed.identity = True
        for some in _portions(member_ids):
            self._connection.execute(delete(members).where(members.c.group_id == group_id, members.c.member_id.in_(some)))

    def has_active_admin(self) -> bool:
        """Whether an active identity is an administrator, directly or through groups."""
        return bool(self._connection.execute(_ANY_ADMIN).scalar())

    def _present(self, group_id: str, member_ids: Collection[str]) -> set[str]:
        found: set[str] = set()
        for some in _portions(member_ids):
            query = select(members.c.member_id).where(members.c.group_id == group_id, members.c.member_id.in_(some))
            found.update(self._connection.execute(query).scalars())
        return found


def _portions(values: Collection[str]) -> list[Sequence[str]]:
    each = sorted(set(values))
    return [each[start : start + _MOST_AT_ONCE] for start in range(0, len(each), _MOST_AT_ONCE)]
