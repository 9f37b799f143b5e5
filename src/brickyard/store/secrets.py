"""Rows of secret scopes and their secrets. Names are folded (`domain.secrets.fold`) by whoever calls."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, insert, select, update

from brickyard.domain.access import ObjectKind, Place
from brickyard.domain.secrets import ScopeRow, Sealed, SecretName, SecretRow
from brickyard.store.changeset import Changes
from brickyard.store.grants import remove_grants
from brickyard.store.tables import secret_scopes, secrets


class SecretRows:
    """Within one transaction. Writers take turns by `Tx.lock`."""

    def __init__(self, connection: Connection, *, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed

    # -- scopes --------------------------------------------------------------------------------------------------------

    def scope(self, scope: str) -> ScopeRow | None:
        row = self._connection.execute(select(secret_scopes).where(secret_scopes.c.scope == scope)).one_or_none()
        return None if row is None else ScopeRow(name=row.name, created_ms=row.created_ms, creator=row.creator)

    def scopes(self) -> list[ScopeRow]:
        """All scopes by name."""
        rows = self._connection.execute(select(secret_scopes).order_by(secret_scopes.c.scope))
        return [ScopeRow(name=row.name, created_ms=row.created_ms, creator=row.creator) for row in rows]

    def insert_scope(self, scope: str, row: ScopeRow) -> None:
        values = {"scope": scope, "name": row.name, "created_ms": row.created_ms, "creator": row.creator}
        self._connection.execute(insert(secret_scopes), values)

    def delete_scope(self, scope: str) -> None:
        """Removes the scope with its secrets and grants."""
        for table in (secrets, secret_scopes):
            self._connection.execute(delete(table).where(table.c.scope == scope))
        remove_grants(self._connection, self._changed, Place(ObjectKind.SECRET_SCOPE, scope))

    # -- secrets -------------------------------------------------------------------------------------------------------

    def of_scope(self, scope: str) -> list[SecretRow]:
        """The scope's secrets by key."""
        columns = select(secrets.c.name, secrets.c.updated_ms).where(secrets.c.scope == scope).order_by(secrets.c.key)
        return [SecretRow(key=row.name, updated_ms=row.updated_ms) for row in self._connection.execute(columns)]

    def count(self, scope: str) -> int:
        query = select(func.count()).select_from(secrets).where(secrets.c.scope == scope)
        return int(self._connection.execute(query).scalar() or 0)

    def get(self, of: SecretName) -> tuple[str, Sealed] | None:
        """The key as it was written, and the encrypted value."""
        row = self._connection.execute(select(secrets).where(secrets.c.scope == of.scope, secrets.c.key == of.key)).one_or_none()
        return None if row is None else (row.name, Sealed(key_id=row.key_id, wrapped=row.wrapped, data=row.data))

    def put(self, of: SecretName, *, name: str, sealed: Sealed, now: int) -> None:
        """Writes a secret, new or not. `name`: its key as the user writes it."""
        values = {"name": name, "updated_ms": now, "key_id": sealed.key_id, "wrapped": sealed.wrapped, "data": sealed.data}
        where = (secrets.c.scope == of.scope, secrets.c.key == of.key)
        if self._connection.execute(update(secrets).where(*where).values(values)).rowcount == 0:
            self._connection.execute(insert(secrets), {"scope": of.scope, "key": of.key, **values})

    def delete(self, of: SecretName) -> bool:
        """Removes a secret. Returns whether it existed."""
        where = (secrets.c.scope == of.scope, secrets.c.key == of.key)
        return self._connection.execute(delete(secrets).where(*where)).rowcount > 0

    # -- keys ----------------------------------------------------------------------------------------------------------

    def key_ids(self) -> set[str]:
        """The ids of the keys with which the workspace's secrets are encrypted."""
        return set(self._connection.execute(select(secrets.c.key_id).distinct()).scalars())

    def scopes_under(self, key_ids: set[str]) -> list[str]:
        """The names of scopes with secrets that one of these keys encrypts."""
        query = select(secret_scopes.c.name).join(secrets, secrets.c.scope == secret_scopes.c.scope)
        rows = self._connection.execute(query.where(secrets.c.key_id.in_(key_ids)).distinct().order_by(secret_scopes.c.name))
        return [str(name) for name in rows.scalars()]

    def not_under(self, key_id: str, *, limit: int) -> Sequence[tuple[SecretName, Sealed]]:
        """Secrets that another key encrypts, without their values."""
        columns = select(secrets.c.scope, secrets.c.key, secrets.c.key_id, secrets.c.wrapped)
        rows = self._connection.execute(columns.where(secrets.c.key_id != key_id).limit(limit))
        return [(SecretName(row.scope, row.key), Sealed(key_id=row.key_id, wrapped=row.wrapped, data=b"")) for row in rows]

    def set_key(self, of: SecretName, sealed: Sealed) -> None:
        """Replaces the key of a secret's value; the value stays."""
        where = (secrets.c.scope == of.scope, secrets.c.key == of.key)
        self._connection.execute(update(secrets).where(*where).values(key_id=sealed.key_id, wrapped=sealed.wrapped))
