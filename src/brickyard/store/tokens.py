"""Rows of credentials: personal access tokens, OAuth tokens, browser sessions. Only keyed hashes of them are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    String,
    bindparam,
    case,
    cast,
    delete,
    insert,
    literal,
    select,
    update,
)

from brickyard.domain.identity import NEVER, CredentialKind, TokenRow
from brickyard.store.changeset import Changes
from brickyard.store.tables import tokens

KEYED = "k"  # every keyed hash begins with it; plain SHA-256 digests of older versions are hex
_BY_DIGEST = select(tokens).where(tokens.c.digest == bindparam("digest"))
_BY_ID = select(tokens).where(tokens.c.token_id == bindparam("token_id"))
_USED = (
    update(tokens)
    .where(tokens.c.token_id == bindparam("id"), tokens.c.last_used_ms < bindparam("used"))
    .values(last_used_ms=bindparam("used"))
)


class TokenRows:
    """Rows of credentials within one transaction."""

    def __init__(self, connection: Connection, *, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed

    def insert(self, row: TokenRow) -> None:
        self._connection.execute(insert(tokens), msgspec.structs.asdict(row))

    def by_hash(self, digest: str) -> TokenRow | None:
        return self._one(_BY_DIGEST, digest=digest)

    def get(self, token_id: str) -> TokenRow | None:
        return self._one(_BY_ID, token_id=token_id)

    def of_user(self, user_name: str, kind: CredentialKind = CredentialKind.PERSONAL) -> list[TokenRow]:
        """The user's credentials of that kind, oldest first."""
        return self._rows(tokens.c.user_name == user_name, tokens.c.kind == kind)

    def all(self, kind: CredentialKind = CredentialKind.PERSONAL) -> list[TokenRow]:
        """Everybody's credentials of that kind, oldest first."""
        return self._rows(tokens.c.kind == kind)

    def set_details(self, token_id: str, details: str) -> None:
        self._connection.execute(update(tokens).where(tokens.c.token_id == token_id).values(details=details))

    def extend_sessions(self, last: Mapping[str, int], *, idle_ms: int) -> None:
        """Lets browser sessions last from their last use on, up to their end; what has ended stays so. `details` is the end."""
        until, end = bindparam("until", type_=BigInteger), cast(tokens.c.details, BigInteger)
        statement = (
            update(tokens)
            .where(
                tokens.c.token_id == bindparam("id"),
                tokens.c.kind == CredentialKind.SESSION,
                tokens.c.expiry_ms > bindparam("used"),
            )
            .values(expiry_ms=case((until < end, until), else_=end))
        )
        values = [{"id": token_id, "used": used, "until": used + idle_ms} for token_id, used in sorted(last.items())]
        self._connection.execute(statement, values)

    def set_comment(self, token_id: str, comment: str) -> None:
        self._connection.execute(update(tokens).where(tokens.c.token_id == token_id).values(comment=comment))

    def delete(self, token_id: str) -> bool:
        """Deletes a credential with everything that came from it, however far. Returns whether there was any."""
        family = select(literal(token_id, String).label("token_id")).cte(recursive=True, nesting=True)
        family = family.union(select(tokens.c.token_id).where(tokens.c.parent == family.c.token_id))
        found = self._connection.execute(delete(tokens).where(tokens.c.token_id.in_(select(family.c.token_id)))).rowcount > 0
        self._changed.identity |= found
        return found

    def delete_of_user(self, user_name: str) -> None:
        """Deletes all credentials of a user, of every kind."""
        self._changed.identity = True
        self._connection.execute(delete(tokens).where(tokens.c.user_name == user_name))

    def used(self, last: Mapping[str, int]) -> None:
        """Records the time (epoch ms) of the last use of each credential; times that are not later change nothing."""
        self._connection.execute(_USED, [{"id": token_id, "used": used} for token_id, used in sorted(last.items())])

    def trim(self, before_ms: int, limit: int) -> int:
        """Deletes up to `limit` credentials that had expired by then; returns how many."""
        old = select(tokens.c.token_id).where(tokens.c.expiry_ms != NEVER, tokens.c.expiry_ms < before_ms).limit(limit)
        return self._connection.execute(delete(tokens).where(tokens.c.token_id.in_(old))).rowcount

    def plain(self) -> list[tuple[str, str]]:
        """Id and digest of the tokens of older versions, which are hashed without a key."""
        query = select(tokens.c.token_id, tokens.c.digest).where(tokens.c.digest.not_like(f"{KEYED}%"))
        return [(row.token_id, row.digest) for row in self._connection.execute(query)]

    def set_digest(self, token_id: str, *, old: str, new: str) -> None:
        same = (tokens.c.token_id == token_id) & (tokens.c.digest == old)
        self._connection.execute(update(tokens).where(same).values(digest=new))

    def _one(self, query: Select[Any], **values: str) -> TokenRow | None:
        found = self._connection.execute(query, values).mappings().one_or_none()
        return None if found is None else _row(found)

    def _rows(self, *where: ColumnElement[bool]) -> list[TokenRow]:
        query = select(tokens).where(*where).order_by(tokens.c.created_ms, tokens.c.token_id)
        return [_row(row) for row in self._connection.execute(query).mappings()]


def _row(found: Mapping[Any, Any]) -> TokenRow:
    return TokenRow(**{**found, "kind": CredentialKind(found["kind"])})
