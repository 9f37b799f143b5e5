"""The gate that every door of a server asks: whether calls from an address are answered.

The rules are kept in memory. Each commit that changes them, here or on another server, has them read again before the next call;
while other servers write they are read again after a second in any case, in case a notice was lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from brickyard.access import conf
from brickyard.access.buckets import Buckets
from brickyard.domain.clock import Monotonic
from brickyard.domain.errors import DatabaseTrouble, PermissionDenied
from brickyard.domain.sources import UNKNOWN, Admission, SourceRules
from brickyard.features.ipaccess.rows import IpAccessListRows
from brickyard.features.ipaccess.rules import rules
from brickyard.plan.ratelimits import Limit
from brickyard.store.changeset import Changes
from brickyard.store.store import Store
from brickyard.store.tx import Tx

SHARED_CACHE_S = 1.0  # how long the rules are kept while other servers write: the notice of a change may be late
NOTED = Limit(burst=1, interval_s=60.0)  # refusals of one address that are written down

_log = structlog.get_logger(__name__)


class AddressGate:
    """One per server, for one event loop. `note` writes down that an address was refused."""

    def __init__(
        self,
        *,
        store: Store,
        workspace_id: str,
        note: Callable[[str], None] = lambda _: None,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._store = store
        self._workspace_id = workspace_id
        self._note = note
        self._monotonic = monotonic
        self._kept: Admission | None = None
        self._fresh = False
        self._until = 0.0  # if other servers write
        self._excused_until = 0.0  # the database was asked just now, without success
        self._forgotten = 0  # times
        self._reading = asyncio.Lock()
        self._noted = Buckets(NOTED)
        store.on_commit(self._committed)
        store.on_gap(self._forget)

    async def admit(self, source: str) -> None:
        """Raises PermissionDenied unless calls from there are answered (`domain.sources`), and DatabaseTrouble while that cannot
        be known."""
        found = self._known() or await self._read()
        if found.admits(source):
            return
        now = self._monotonic()
        if not self._noted.wait_s(source, now):
            self._noted.spend(source, now)
            self._note(source)
            _log.warning("address_blocked", address=source or "unknown")
        if source == UNKNOWN:
            raise PermissionDenied(
                "IP access lists are on, and the server cannot tell your IP address: the proxy in front of it is not in the "
                "setting trusted_proxies."
            )
        raise PermissionDenied(f"Source IP address: {source} is blocked by Databricks IP ACL for workspace: {self._workspace_id}")

    async def rules(self) -> SourceRules | None:
        """What is in force, for a process that lets connections in itself; None: nothing. Raises DatabaseTrouble."""
        return (self._known() or await self._read()).rules

    def _known(self) -> Admission | None:
        """The rules, if they need not be read."""
        if self._fresh and (self._store.alone or self._monotonic() < self._until):
            return self._kept
        return self._kept if self._monotonic() < self._excused_until else None

    async def _read(self) -> Admission:
        async with self._reading:
            if (known := self._known()) is not None:  # another call has read them meanwhile
                return known
            forgotten, now = self._forgotten, self._monotonic()
            try:
                found = Admission(await self._store.read(_rules))
            except DatabaseTrouble:
                if self._kept is None:
                    raise
                self._excused_until = self._monotonic() + SHARED_CACHE_S
                return self._kept  # while the database is away nobody can change them
            self._kept, self._until = found, now + SHARED_CACHE_S
            # Race: a commit changes them between our read and this line. They are read again then.
            self._fresh = forgotten == self._forgotten
            return found

    def _committed(self, changes: Changes) -> None:
        if changes.identity:
            self._forget()

    def _forget(self) -> None:
        self._forgotten += 1
        self._fresh = False


def _rules(tx: Tx) -> SourceRules | None:
    enabled = conf.has_ip_access_lists(tx)
    return rules(tx.rows(IpAccessListRows).all() if enabled else (), enabled=enabled)
