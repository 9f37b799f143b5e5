"""The audit log: every call that changes something, in the same commit as the change.

The edge begins an entry for each such call. The call's first commit takes it along, so that an acknowledged change always has its
entry, and a change that was rolled back has none. What has an effect outside the database (files, nodes) commits its entry before
the effect (`Store.before_effect`). So an entry that is committed also says that the call may have had its effect: from then on,
trouble with the database is no reason for its client to repeat it. Refused calls are written down afterwards, and only so many of
them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec
import structlog

from brickyard.access import Authorizer
from brickyard.access.buckets import Buckets
from brickyard.access.objects import WORKSPACE
from brickyard.access.principals import caller_of
from brickyard.domain.access import Permission
from brickyard.domain.audit import (
    BLOCKED,
    LOGIN,
    AuditEntry,
    AuditFilter,
    AuditPosition,
    ListAuditLogs,
    ListAuditLogsResponse,
)
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Monotonic
from brickyard.domain.errors import (
    ApiError,
    DatabaseTrouble,
    InvalidParameterValue,
    OutcomeUnknown,
    PermissionDenied,
    RequestLimitExceeded,
    Unauthenticated,
)
from brickyard.domain.pagetokens import audit_position, encode
from brickyard.domain.printable import printable
from brickyard.features.audit.rules import fields, names
from brickyard.plan.ratelimits import Limit
from brickyard.store.audit import Found
from brickyard.store.changeset import Changes
from brickyard.store.companion import Commit
from brickyard.store.prepared import Kept
from brickyard.store.store import Store
from brickyard.store.tx import Tx

T = TypeVar("T")
Asked = Callable[[], tuple[Caller, msgspec.Struct | None]]  # who calls and what was sent, as far as that is known

DEFAULT_PAGE, MAX_PAGE = 100, 1_000
REFUSED = Limit(burst=100, interval_s=1.0)  # entries of refused calls of one principal; more are not written down
STRANGERS = Limit(burst=500, interval_s=0.2)  # entries of wrong credentials, of all addresses together
MOST_WAITING = 2_000  # entries that are written afterwards and wait for the database,
LATE_S, AGAIN_S = 60.0, 1.0  # and for how long each tries, how often
_NOT_RECORDED = frozenset({429, 503, 507})  # the server's state, not the caller's: the call will be repeated

_log = structlog.get_logger(__name__)


class AuditLog:
    """One per server, for one event loop. `server` is its URL."""

    def __init__(
        self, *, store: Store, clock: Clock, authorizer: Authorizer, server: str, monotonic: Monotonic = time.monotonic
    ) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._server = server
        self._monotonic = monotonic
        self._refusals = Buckets(REFUSED)
        self._strangers = Buckets(STRANGERS)
        self._writing: set[asyncio.Task[None]] = set()
        self._closing = False

    def begin(
        self, operation: str, *, status: int, address: str, request_id: str, asked: Asked, logs_in: bool = False
    ) -> Audited:
        """The entry of a call; `status` is that of success. `logs_in`: also written if a stranger is refused."""
        entry = AuditEntry(time=0, operation=operation, status=status, address=address, request_id=request_id)
        return Audited(self, entry, asked, logs_in=logs_in)

    def note(self, operation: str, caller: Caller, *, address: str = "", **objects: str) -> None:
        """Writes an entry that is no call of the API, such as a session's begin. Does not wait, and never raises."""
        entry = AuditEntry(time=0, operation=operation, status=200, address=address, objects=objects)
        self._later(lambda tx: _insert(tx, self.stamped(entry, caller)))

    def failed_login(self, address: str) -> None:
        """Writes down that a wrong credential was sent."""
        entry = AuditEntry(time=0, operation=LOGIN, status=401, address=address, error_code=Unauthenticated.error_code)
        if self._room(self._strangers, ""):
            self._later(lambda tx: _insert(tx, self.stamped(entry, None)))

    def blocked(self, address: str) -> None:
        """Writes down that IP access lists have kept calls from an address out. Does not wait."""
        entry = AuditEntry(time=0, operation=BLOCKED, status=403, address=address, error_code=PermissionDenied.error_code)
        if self._room(self._strangers, ""):
            self._later(lambda tx: _insert(tx, self.stamped(entry, None)))

    async def list(self, caller: Caller, request: ListAuditLogs) -> ListAuditLogsResponse:
        """One page, newest first. Raises PermissionDenied, InvalidParameterValue."""
        size = request.page_size or DEFAULT_PAGE
        if not 0 < size <= MAX_PAGE:
            raise InvalidParameterValue(f"page_size is {size}; it must be between 1 and {MAX_PAGE}.")
        found = await self._page(caller, request.which, size, audit_position(request.page_token))
        return ListAuditLogsResponse(entries=found.entries, next_page_token=encode(found.after) if found.after else "")

    async def export(self, caller: Caller, request: ListAuditLogs) -> AsyncIterator[bytes]:
        """All entries as lines of JSON, newest first, as they are read: also those that were written before a page was reached,
        but none that are newer than the first. Raises PermissionDenied at once."""
        first = await self._page(caller, request.which, MAX_PAGE, audit_position(request.page_token))

        async def lines() -> AsyncIterator[bytes]:
            found = first
            while True:
                if found.entries:
                    yield b"".join(msgspec.json.encode(entry) + b"\n" for entry in found.entries)
                if found.after is None:
                    return
                found = await self._page(caller, request.which, MAX_PAGE, found.after)

        return lines()

    async def close(self) -> None:
        """Waits for what is being written, but not for a database that is away."""
        self._closing = True
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def _page(self, caller: Caller, which: AuditFilter, limit: int, after: AuditPosition | None) -> Found:
        def work(tx: Tx) -> Found:
            self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="read the audit log of the")
            return tx.audit.page(which, limit=limit, after=after)

        return await self._store.read(work)

    # -- for Audited -------------------------------------------------------------------------------------------------

    def stamped(self, entry: AuditEntry, caller: Caller | None, **values: Any) -> AuditEntry:
        """The entry with its time, its server and its caller."""
        who = {} if caller is None else _who(caller)
        return msgspec.structs.replace(entry, time=self._clock.now_ms(), server=self._server, **who, **values)

    def record(self, entry: AuditEntry, caller: Caller) -> None:
        """Writes the entry of a call that has had no effect. Does not wait."""
        self._later(lambda tx: _insert(tx, self.stamped(entry, caller)))

    def record_refusal(self, entry: AuditEntry, caller: Caller, *, strangers: bool) -> None:
        """Writes the entry of a refused call, unless the caller has had too many of them. Does not wait."""
        if entry.status in _NOT_RECORDED or not (caller.user_id or strangers):
            return
        if self._room(self._refusals, caller.user_id) if caller.user_id else self._room(self._strangers, ""):
            self._later(lambda tx: _insert(tx, self.stamped(entry, caller)))

    def change(self, row: int, **values: Any) -> None:
        """Completes an entry. Does not wait."""
        self._later(lambda tx: tx.audit.change(row, **values))

    def _room(self, buckets: Buckets, key: str) -> bool:
        now = self._monotonic()
        if buckets.wait_s(key, now):
            return False
        buckets.spend(key, now)
        return True

    def _later(self, work: Callable[[Tx], None]) -> None:
        if len(self._writing) >= MOST_WAITING:
            _log.warning("audit_entry_dropped", waiting=len(self._writing))
            return
        task = asyncio.get_running_loop().create_task(self._write(work))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, work: Callable[[Tx], None]) -> None:
        """Writes, again and again while the database is away. A loss is logged."""
        deadline = self._monotonic() + LATE_S
        while True:
            try:
                await self._store.write(work, background=True)
                return
            except Exception as error:
                if not isinstance(error, DatabaseTrouble) or self._closing or self._monotonic() >= deadline:
                    _log.warning("audit_entry_lost", why=str(getattr(error, "reason", error)) or type(error).__name__)
                    return
            await asyncio.sleep(AGAIN_S)


class Audited:
    """The entry of one call: what `store.companion` adds to its first commit."""

    def __init__(self, log: AuditLog, entry: AuditEntry, asked: Asked, *, logs_in: bool) -> None:
        self._logs_in = logs_in
        self._log = log
        self._entry = entry
        self._asked = asked
        self._joining = False
        self._ended = False  # what the call has left running must not add an entry
        self._row: int | None = None  # of the entry, once it is committed
        self._objects: dict[str, str] = {}

    def wanted(self) -> bool:
        return not (self._joining or self._ended) and self._row is None

    async def write(self, work: Callable[[Tx], T], commit: Commit[T]) -> T:
        caller, request = self._asked()
        objects, set_fields = names(request), fields(request)
        row: Kept | None = None

        def both(tx: Tx) -> T:
            nonlocal row
            result = work(tx)
            self._objects = {**_made(self._entry.operation, tx.changed), **objects}
            who = caller if tx.identified is None else caller_of(tx.identified[0], token_id=tx.identified[1])
            row = tx.audit.insert(self._log.stamped(self._entry, who, objects=self._objects, fields=set_fields))
            return result

        self._joining = True
        try:
            result = await commit(both)
            self._row = row.id if row is not None else None
            return result
        finally:
            self._joining = False

    def succeeded(self, answer: object) -> None:
        """Adds to the entry what the call made. A call without one has changed nothing; its entry is written afterwards."""
        self._ended = True
        if self._row is None and self._validates():
            return
        caller, request = self._asked()
        made = names(answer) if isinstance(answer, msgspec.Struct) else {}
        if made.get("id") in names(request).values():
            made = {}  # it shows what the request names: nothing was made
        if self._row is None:
            objects = {**made, **names(request)}
            self._log.record(msgspec.structs.replace(self._entry, objects=objects, fields=fields(request)), caller)
        elif made.keys() - self._objects.keys():
            self._log.change(self._row, objects={**made, **self._objects})

    def failed(self, error: ApiError) -> ApiError:
        """Records the refusal, or that what was committed was followed by an error. Returns the error to answer with: once the
        entry is committed, none of the database's that makes clients repeat the call."""
        self._ended = True
        if self._row is not None and isinstance(error, DatabaseTrouble | RequestLimitExceeded):
            error = OutcomeUnknown(
                "The workspace's database failed while this call was under way, so some or all of it may have been done. Look "
                "before you repeat it."
            )
        self._write_failure(error)
        return error

    def _write_failure(self, error: ApiError) -> None:
        if self._row is not None:
            self._log.change(self._row, status=error.http_status, error_code=error.error_code)
            return
        if self._validates():
            return
        caller, request = self._asked()
        entry = msgspec.structs.replace(
            self._entry,
            objects=names(request) | ({"user_name": printable(error.user_name)} if error.user_name else {}),
            fields=fields(request),
            status=error.http_status,
            error_code=error.error_code,
        )
        self._log.record_refusal(entry, caller, strangers=self._logs_in)

    def _validates(self) -> bool:
        """Whether the call only asks what it would do."""
        return bool(getattr(self._asked()[1], "validate_only", False))


def _who(caller: Caller) -> dict[str, str]:
    return {"user_name": caller.user_name, "user_id": caller.user_id, "credential_id": caller.token_id}


def _made(operation: str, changed: Changes) -> dict[str, str]:
    """The id of what a call creates, from what its transaction has changed."""
    ids: set[Any]
    match operation:
        case "clusters.create":
            name, ids = "cluster_id", changed.clusters
        case "gpu_clusters.create":
            name, ids = "id", changed.clusters
        case "warehouses.create":
            name, ids = "id", changed.clusters
        case "instance_pools.create":
            name, ids = "instance_pool_id", changed.pools
        case "jobs.runs_submit":
            name, ids = "run_id", changed.runs
        case _:
            return {}
    return {name: str(next(iter(ids)))} if len(ids) == 1 else {}


def _insert(tx: Tx, entry: AuditEntry) -> None:
    tx.audit.insert(entry)
