"""The IP Access Lists API's calls, for administrators. None of them can lock its own caller out."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import msgspec

from brickyard.access import Authorizer, conf
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import InvalidState, ResourceDoesNotExist
from brickyard.domain.sources import UNKNOWN, Admission
from brickyard.features.ipaccess.model import (
    CreateIpAccessList,
    DeleteIpAccessList,
    IpAccessList,
    IpAccessListId,
    ReplaceIpAccessList,
    UpdateIpAccessList,
)
from brickyard.features.ipaccess.rows import IpAccessListRows
from brickyard.features.ipaccess.rules import check, check_quota, rules
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_SHOWN = 64


class IpAccessListService:
    """One per server. Methods raise ApiError: InvalidState where the caller itself would be refused from then on."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer

    async def create(self, caller: Caller, request: CreateIpAccessList) -> IpAccessList:
        """Creates a list, which is in force at once if `enableIpAccessLists` is on."""
        now, by = self._clock.now_ms(), int(caller.user_id)
        made = IpAccessList(
            list_id=str(uuid.UUID(self._ids.hex(32))),
            label=request.label,
            list_type=request.list_type,
            enabled=request.enabled,
            ip_addresses=tuple(request.ip_addresses),
            address_count=len(request.ip_addresses),
            created_at=now,
            created_by=by,
            updated_at=now,
            updated_by=by,
        )

        def work(tx: Tx) -> IpAccessList:
            lists = self._begin(tx, caller, to="create IP access lists in the")
            check(made.label, made.ip_addresses)
            tx.rows(IpAccessListRows).insert(made)
            _finish(tx, [*lists, made], request.source)
            return made

        return await self._store.write(work)

    async def replace(self, caller: Caller, request: ReplaceIpAccessList) -> IpAccessList:
        """Sets every field of a list."""
        return await self._change(
            caller,
            request.ip_access_list_id,
            request.source,
            label=request.label,
            list_type=request.list_type,
            ip_addresses=tuple(request.ip_addresses),
            enabled=request.enabled,
        )

    async def update(self, caller: Caller, request: UpdateIpAccessList) -> IpAccessList:
        """Sets the fields that are given."""
        given: dict[str, object] = {
            "label": request.label,
            "list_type": request.list_type,
            "ip_addresses": None if request.ip_addresses is None else tuple(request.ip_addresses),
            "enabled": request.enabled,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        return await self._change(caller, request.ip_access_list_id, request.source, **changes)

    async def delete(self, caller: Caller, request: DeleteIpAccessList) -> None:
        """Deletes a list. Raises ResourceDoesNotExist."""

        def work(tx: Tx) -> None:
            lists = self._begin(tx, caller, to="delete IP access lists of the")
            gone = _find(lists, request.ip_access_list_id)
            tx.rows(IpAccessListRows).delete(gone.list_id)
            _finish(tx, [each for each in lists if each is not gone], request.source)

        await self._store.write(work)

    async def get(self, caller: Caller, request: IpAccessListId) -> IpAccessList:
        """Raises ResourceDoesNotExist."""

        def work(tx: Tx) -> IpAccessList:
            self._require(tx, caller, to="see the IP access lists of the")
            return _find(tx.rows(IpAccessListRows).all(), request.ip_access_list_id)

        return await self._store.read(work)

    async def list(self, caller: Caller) -> list[IpAccessList]:
        """All lists, oldest first."""

        def work(tx: Tx) -> list[IpAccessList]:
            self._require(tx, caller, to="see the IP access lists of the")
            return tx.rows(IpAccessListRows).all()

        return await self._store.read(work)

    async def _change(self, caller: Caller, list_id: str, source: str, **changes: object) -> IpAccessList:
        now, by = self._clock.now_ms(), int(caller.user_id)

        def work(tx: Tx) -> IpAccessList:
            lists = self._begin(tx, caller, to="change IP access lists of the")
            before = _find(lists, list_id)
            after = msgspec.structs.replace(before, **changes, updated_at=now, updated_by=by)
            after = msgspec.structs.replace(after, address_count=len(after.ip_addresses))
            check(after.label, after.ip_addresses)
            tx.rows(IpAccessListRows).update(after)
            _finish(tx, [after if each is before else each for each in lists], source)
            return after

        return await self._store.write(work)

    def _begin(self, tx: Tx, caller: Caller, *, to: str) -> Sequence[IpAccessList]:
        """The lists as they are, and stay until this commit."""
        self._require(tx, caller, to=to)
        conf.hold(tx)
        return tx.rows(IpAccessListRows).all()

    def _require(self, tx: Tx, caller: Caller, *, to: str) -> None:
        self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to=to)


def require_way_in(tx: Tx, source: str) -> None:
    """Raises InvalidState if calls from there are refused by the settings and lists as they are now in the transaction."""
    _require_way_in(tx.rows(IpAccessListRows).all(), source, enabled=conf.has_ip_access_lists(tx))


def _require_way_in(lists: Sequence[IpAccessList], source: str, *, enabled: bool) -> None:
    if Admission(rules(lists, enabled=enabled)).admits(source):
        return
    if source == UNKNOWN:
        raise InvalidState(
            "The IP access lists would block you: the server cannot tell your IP address, because a proxy that it does not know "
            "has passed the call on. Name the proxy in the setting trusted_proxies first."
        )
    raise InvalidState(
        f"The IP access lists would block your current IP address {source}. Add it to an ALLOW list, or take it out of the BLOCK "
        "lists, first."
    )


def _finish(tx: Tx, lists: Sequence[IpAccessList], source: str) -> None:
    """Checks what holds of all lists together. Every server then looks at them again."""
    check_quota(lists)
    _require_way_in(lists, source, enabled=conf.has_ip_access_lists(tx))
    tx.changed.identity = True


def _find(lists: Sequence[IpAccessList], list_id: str) -> IpAccessList:
    for each in lists:
        if each.list_id == list_id.lower():
            return each
    raise ResourceDoesNotExist(f"IP access list with ID {list_id[:_SHOWN]} does not exist.")
