"""The Queries API's calls: each is one transaction."""

from __future__ import annotations

import uuid

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE, of_query
from brickyard.access.principals import active_principal
from brickyard.domain.access import ObjectKind, Permission, Principal, SecurableObject, Visible
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import InvalidParameterValue, QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.pagetokens import encode, statement_position
from brickyard.domain.statements import StatementPosition
from brickyard.features.savedqueries import rules
from brickyard.features.savedqueries.model import (
    CreateQuery,
    ListSavedQueries,
    ListSavedQueriesResponse,
    QueryFields,
    QueryId,
    QueryView,
    SavedQueryRow,
    UpdateQuery,
)
from brickyard.features.savedqueries.rows import SavedQueryRows
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_QUERIES = 12_000  # of a workspace
PAGE, MOST_PAGE = 20, 100
_EVERY = 1_000_000
_SHOWN = 64


class SavedQueryService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, store: Store, clock: Clock, authorizer: Authorizer) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer

    async def create(self, caller: Caller, request: CreateQuery) -> QueryView:
        """Saves a query of the caller's."""
        asked = request.query or QueryFields()
        if asked.owner_user_name not in (None, caller.user_name):
            raise InvalidParameterValue("owner_user_name must be your own name. Change the owner afterwards.")
        home = f"/Users/{caller.user_name}"
        owned = msgspec.structs.replace(asked, owner_user_name=caller.user_name, parent_path=asked.parent_path or home)
        fields, now = rules.checked(owned), self._clock.now_ms()

        def work(tx: Tx) -> SavedQueryRow:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="save queries in")
            if tx.rows(SavedQueryRows).count() >= MAX_QUERIES:
                raise QuotaExceeded(f"The workspace has {MAX_QUERIES} queries, which is the maximum. Delete one first.")
            row = SavedQueryRow(
                query_id=str(uuid.uuid4()), created_ms=now, updated_ms=now, modified_by=caller.user_name, fields=fields
            )
            row = _named(tx, row, resolve=bool(request.auto_resolve_display_name))
            tx.rows(SavedQueryRows).insert(row)
            return row

        return rules.view(await self._store.write(work))

    async def get(self, caller: Caller, request: QueryId) -> QueryView:
        """One query."""
        return rules.view(await self._store.read(lambda tx: self._find(tx, caller, request.id, Permission.CAN_READ, to="see")))

    async def list(self, caller: Caller, request: ListSavedQueries) -> ListSavedQueriesResponse:
        """The queries that the caller may see, oldest first: one page."""
        size = request.page_size or PAGE
        if not 1 <= size <= MOST_PAGE:
            raise InvalidParameterValue(f"page_size is {size}; it must be between 1 and {MOST_PAGE}.")
        after = statement_position(request.page_token)

        def work(tx: Tx) -> list[SavedQueryRow]:
            return list(
                tx.rows(SavedQueryRows).page(self._authorizer.visible(tx, caller, ObjectKind.QUERY), limit=size + 1, after=after)
            )

        found = await self._store.read(work)
        page, more = found[:size], len(found) > size
        token = encode(StatementPosition(page[-1].created_ms, page[-1].query_id)) if more else None
        return ListSavedQueriesResponse(results=[rules.view(row) for row in page], next_page_token=token)

    async def update(self, caller: Caller, request: UpdateQuery) -> QueryView:
        """Changes the fields that the mask names."""
        now = self._clock.now_ms()

        def work(tx: Tx) -> SavedQueryRow:
            row = self._find(tx, caller, request.id, Permission.CAN_EDIT, to="change")
            fields = rules.checked(rules.merged(row.fields, request.query or QueryFields(), request.update_mask))
            owner = fields.owner_user_name or ""
            if owner != row.fields.owner_user_name:
                self._authorizer.require(tx, caller, Permission.CAN_MANAGE, _object(row), to="give away")
                if active_principal(tx, owner) is None:
                    raise InvalidParameterValue(f"owner_user_name: {owner[:140]!r} is not an active user or service principal.")
            row = msgspec.structs.replace(row, fields=fields, updated_ms=now, modified_by=caller.user_name)
            row = _named(tx, row, resolve=bool(request.auto_resolve_display_name))
            tx.rows(SavedQueryRows).update(row)
            return row

        return rules.view(await self._store.write(work))

    async def delete(self, caller: Caller, request: QueryId) -> None:
        """Deletes a query. There is no trash."""

        def work(tx: Tx) -> None:
            row = self._find(tx, caller, request.id, Permission.CAN_MANAGE, to="delete")
            tx.rows(SavedQueryRows).delete(row.query_id)
            tx.grants.put(_object(row).places[0], ())

        await self._store.write(work)

    async def fields(self, owner: Principal, query_id: str) -> QueryFields:
        """What a task of the owner's runs. Raises PermissionDenied and ResourceDoesNotExist."""
        row = await self._store.read(lambda tx: self._find(tx, owner, query_id, Permission.CAN_RUN, to="run"), background=True)
        return row.fields

    def owner(self, tx: Tx, query_id: str) -> str | None:
        """Who owns the query; None if there is none. Checks no permission."""
        row = tx.rows(SavedQueryRows).get(query_id)
        return None if row is None else row.fields.owner_user_name or ""

    def _find(self, tx: Tx, principal: Principal, query_id: str, permission: Permission, *, to: str) -> SavedQueryRow:
        row = tx.rows(SavedQueryRows).get(query_id)
        if row is None:
            raise ResourceDoesNotExist(f"Query {query_id[:_SHOWN]} does not exist.")
        self._authorizer.require(tx, principal, permission, _object(row), to=to)
        return row


def _object(row: SavedQueryRow) -> SecurableObject:
    return of_query(row.query_id, row.fields.owner_user_name or "")


def _named(tx: Tx, row: SavedQueryRow, *, resolve: bool) -> SavedQueryRow:
    """The query with a name of its own in its folder. Writers of an owner's queries take turns until the commit."""
    owner = row.fields.owner_user_name or ""
    tx.lock(f"saved-queries/{owner}")
    others = tx.rows(SavedQueryRows).page(Visible(owner=owner), limit=_EVERY, after=None)
    taken = {
        each.fields.display_name or ""
        for each in others
        if each.query_id != row.query_id and each.fields.parent_path == row.fields.parent_path
    }
    name = rules.free_name(row.fields.display_name or "", taken, resolve=resolve)
    return msgspec.structs.replace(row, fields=msgspec.structs.replace(row.fields, display_name=name))
