"""One transaction: the rows of every table, and what it changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import Connection, delete, func, insert, select, update

from brickyard.domain.access import Principal
from brickyard.domain.cluster import Instance
from brickyard.store.audit import AuditRows
from brickyard.store.changeset import Changes
from brickyard.store.charges import ChargeRows
from brickyard.store.clusters import ClusterRows
from brickyard.store.events import EventRows
from brickyard.store.grants import GrantRows
from brickyard.store.heard import HeardRows
from brickyard.store.identity import GroupRows, UserRows
from brickyard.store.instances import InstanceRows
from brickyard.store.listing import ListingRows
from brickyard.store.outbox import OutboxRows
from brickyard.store.policies import PolicyRows
from brickyard.store.pools import PoolRows
from brickyard.store.ports import PortRows
from brickyard.store.runs import RunRows
from brickyard.store.samples import SampleRows
from brickyard.store.scripts import ScriptRows
from brickyard.store.secrets import SecretRows
from brickyard.store.servers import ServerRows
from brickyard.store.snapshots import SnapshotRows
from brickyard.store.starttimes import StartTimeRows
from brickyard.store.tables import meta
from brickyard.store.tokens import TokenRows

_ROWS: Mapping[str, Callable[[Connection, bool, Changes], Any]] = {
    "clusters": lambda connection, locking, changed: ClusterRows(connection, locking=locking, changed=changed),
    "instances": lambda connection, locking, changed: InstanceRows(connection, locking=locking, changed=changed),
    "pools": lambda connection, locking, changed: PoolRows(connection, locking=locking, changed=changed),
    "policies": lambda connection, _locking, changed: PolicyRows(connection, changed=changed),
    "grants": lambda connection, _locking, changed: GrantRows(connection, changed=changed),
    "audit": lambda connection, _locking, _changed: AuditRows(connection),
    "listing": lambda connection, _locking, _changed: ListingRows(connection),
    "events": lambda connection, _locking, _changed: EventRows(connection),
    "runs": lambda connection, locking, changed: RunRows(connection, locking=locking, changed=changed),
    "scripts": lambda connection, _locking, _changed: ScriptRows(connection),
    "tokens": lambda connection, _locking, changed: TokenRows(connection, changed=changed),
    "users": lambda connection, _locking, changed: UserRows(connection, changed=changed),
    "groups": lambda connection, _locking, changed: GroupRows(connection, changed=changed),
    "heard": lambda connection, _locking, _changed: HeardRows(connection),
    "servers": lambda connection, _locking, _changed: ServerRows(connection),
    "samples": lambda connection, _locking, _changed: SampleRows(connection),
    "charges": lambda connection, _locking, _changed: ChargeRows(connection),
    "start_times": lambda connection, _locking, _changed: StartTimeRows(connection),
    "ports": lambda connection, _locking, changed: PortRows(connection, changed=changed),
    "snapshots": lambda connection, _locking, changed: SnapshotRows(connection, changed=changed),
    "secrets": lambda connection, _locking, changed: SecretRows(connection, changed=changed),
    "outbox": lambda connection, locking, _changed: OutboxRows(connection, locking=locking),
}


R_co = TypeVar("R_co", covariant=True)


class RowsOf(Protocol[R_co]):
    """The class of a feature's rows, which the core does not know."""

    def __call__(self, connection: Connection, *, locking: bool) -> R_co: ...


class ChangedHands(Exception):
    """The row to be locked has a new owner: the unit must start over. Only the writer handles this."""


class Tx:
    """The argument of a unit of work. Not for use after the unit has returned."""

    clusters: ClusterRows
    instances: InstanceRows
    pools: PoolRows
    policies: PolicyRows
    grants: GrantRows
    audit: AuditRows
    listing: ListingRows
    events: EventRows
    runs: RunRows
    scripts: ScriptRows
    tokens: TokenRows
    users: UserRows
    groups: GroupRows
    heard: HeardRows
    servers: ServerRows
    samples: SampleRows
    charges: ChargeRows
    start_times: StartTimeRows
    ports: PortRows
    snapshots: SnapshotRows
    secrets: SecretRows
    outbox: OutboxRows

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        self._connection = connection
        self._locking = locking
        self._changed = Changes()
        self.identified: tuple[Principal, str] | None = None  # see `identify`

    if not TYPE_CHECKING:  # so that what does not exist is found

        def __getattr__(self, name):
            """The rows of a table, made when they are first used: a unit uses a few of them."""
            if (make := _ROWS.get(name)) is None:
                raise AttributeError(name)
            rows = make(self._connection, self._locking, self._changed)
            setattr(self, name, rows)
            return rows

    def rows(self, kind: RowsOf[R_co]) -> R_co:
        """The rows of a feature."""
        return kind(self._connection, locking=self._locking)

    def get_meta(self, key: str) -> str | None:
        """A fact about the workspace itself, such as its id."""
        return self._connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar()

    def set_meta(self, key: str, value: str) -> None:
        if self._connection.execute(update(meta).where(meta.c.key == key).values(value=value)).rowcount == 0:
            self._connection.execute(insert(meta).values(key=key, value=value))

    def delete_meta(self, key: str) -> None:
        self._connection.execute(delete(meta).where(meta.c.key == key))

    def pragma(self, name: str) -> int:
        """A number that SQLite reports about its database. For `store.reserve`."""
        return int(self._connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)

    def execute(self, statement: str) -> None:
        """Executes a statement that concerns none of our tables. For `store.reserve`."""
        self._connection.exec_driver_sql(statement)

    def lock(self, name: str, *, shared: bool = False) -> None:
        """Takes turns with other writers that lock the same name, until the commit; those with `shared` only with the others.
        SQLite's writers always take turns."""
        if self._connection.dialect.name == "postgresql":
            take = func.pg_advisory_xact_lock_shared if shared else func.pg_advisory_xact_lock
            self._connection.execute(select(take(func.hashtextextended(name, 0))))

    def lock_owner(self, instance_id: str) -> Instance | None:
        """The instance, with its owner locked first: its cluster, or its pool if it is idle.

        Race: it may change hands between the look-up and the lock. The lock on its earlier owner must then be released before the
        new owner is locked, or two transactions could deadlock: so the whole unit starts over.
        """
        if not self._locking:
            return self.instances.get(instance_id)
        if (found := self.instances.get_with_cluster(instance_id)) is not None:
            return found
        owner = self.instances.owner_of(instance_id)
        if owner is None:
            return None
        cluster_id, pool_id = owner
        if cluster_id and self.clusters.existing([cluster_id]):
            raise ChangedHands
        self.pools.get(pool_id)
        instance = self.instances.guarded(instance_id)
        if instance is not None and (instance.cluster_id, instance.pool_id) != owner:
            raise ChangedHands
        return instance

    def wake_owner(self, instance: Instance) -> None:
        """Wakes the cluster or pool that has the instance."""
        if instance.cluster_id:
            self.clusters.wake(instance.cluster_id)
        else:
            self.pools.wake(instance.pool_id)

    def identify(self, principal: Principal, *, credential_id: str) -> None:
        """Names who makes this change where the call itself does not: whoever logs in or out. For the audit log."""
        self.identified = (principal, credential_id)

    @property
    def changed(self) -> Changes:
        """What this transaction may have changed so far."""
        return self._changed

    def finish(self) -> Changes:
        """What this transaction may have changed."""
        return self._changed
