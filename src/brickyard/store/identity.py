"""Rows of users and their tokens."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from brickyard.domain.identity import TokenRow, UserRow
from brickyard.store.tables import tokens, users

_BY_DIGEST = select(tokens).where(tokens.c.digest == bindparam("digest"))


class TokenRows:
    """Token rows within one transaction. Only digests are stored."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, row: TokenRow) -> None:
        self._connection.execute(insert(tokens), msgspec.structs.asdict(row))

    def by_hash(self, digest: str) -> TokenRow | None:
        row = self._connection.execute(_BY_DIGEST, {"digest": digest}).mappings().one_or_none()
        return None if row is None else TokenRow(**row)

    def of_user(self, user_name: str) -> list[TokenRow]:
        """The user's tokens, oldest first."""
        query = select(tokens).where(tokens.c.user_name == user_name).order_by(tokens.c.created_ms, tokens.c.token_id)
        return [TokenRow(**row) for row in self._connection.execute(query).mappings()]

    def delete(self, token_id: str) -> bool:
        """Deletes a token. Returns whether it existed."""
        return self._connection.execute(delete(tokens).where(tokens.c.token_id == token_id)).rowcount > 0


class UserRows:
    """User rows within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, user_name: str) -> UserRow | None:
        row = self._connection.execute(select(users).where(users.c.user_name == user_name)).mappings().one_or_none()
        return None if row is None else UserRow(**row)

    def upsert(self, row: UserRow) -> None:
        """Inserts the user, or overwrites everything except the name."""
        values = msgspec.structs.asdict(row)
        if self._connection.execute(update(users).where(users.c.user_name == row.user_name).values(values)).rowcount == 0:
            self._connection.execute(insert(users), values)
