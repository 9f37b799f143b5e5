"""One transaction: the rows of every table, and the set of clusters that it changed."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, insert, select, update

from brickyard.store.clusters import ClusterRows
from brickyard.store.events import EventRows
from brickyard.store.identity import TokenRows, UserRows
from brickyard.store.instances import InstanceRows
from brickyard.store.listing import ListingRows
from brickyard.store.tables import meta


class Tx:
    """What a unit of work works with. Not for use after the unit has returned."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        self._connection = connection
        self._changed: set[str] = set()
        self.clusters = ClusterRows(connection, locking=locking, changed=self._changed)
        self.instances = InstanceRows(connection, locking=locking, changed=self._changed)
        self.listing = ListingRows(connection)
        self.events = EventRows(connection)
        self.tokens = TokenRows(connection)
        self.users = UserRows(connection)

    def get_meta(self, key: str) -> str | None:
        """A fact about the workspace itself, such as its id."""
        return self._connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar()

    def set_meta(self, key: str, value: str) -> None:
        if self._connection.execute(update(meta).where(meta.c.key == key).values(value=value)).rowcount == 0:
            self._connection.execute(insert(meta).values(key=key, value=value))

    def delete_meta(self, key: str) -> None:
        self._connection.execute(delete(meta).where(meta.c.key == key))

    def lock(self, name: str) -> None:
        """Take turns with other writers that lock the same name, until the commit. SQLite's writers always do."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))

    def finish(self) -> frozenset[str]:
        """Ids of the clusters whose public view this transaction may have changed."""
        return frozenset(self._changed)
