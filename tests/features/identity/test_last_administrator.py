"""Two servers at once never leave the workspace without an administrator, whatever each of them does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from brickyard.access import Authorizer
from brickyard.domain.access import Principal
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.domain.errors import ApiError
from brickyard.domain.identity import ADMINS_ID, GroupRow
from brickyard.features.identity import IdentityServices
from brickyard.store.sharing import Always
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.clock import ManualClock
from tests.support.people import enter
from tests.support.postgres import Postgres
from tests.support.services import no_homes

DIRECT = Caller(user_name="direct@example.com", user_id="1", is_admin=True, token_id="")
NESTED = Caller(user_name="nested@example.com", user_id="2", is_admin=True, token_id="")
OUTER, INNER = "10", "11"
Act = Callable[[IdentityServices, Caller], Coroutine[Any, Any, object]]


def patch(**change: Any) -> dict[str, Any]:
    return {"Operations": [change]}


# What takes the last right from the one of them, and from the other, who is an administrator through two groups.
OF_DIRECT: dict[str, Act] = {
    "deactivated": lambda of, by: of.users.patch(by, "1", patch(op="replace", path="active", value=False)),
    "deleted": lambda of, by: of.users.delete(by, "1"),
    "no member": lambda of, by: of.groups.patch(by, ADMINS_ID, patch(op="remove", path='members[value eq "1"]')),
}
OF_NESTED: dict[str, Act] = {
    "deactivated": lambda of, by: of.users.patch(by, "2", patch(op="replace", path="active", value="False")),
    "inner group deleted": lambda of, by: of.groups.delete(by, INNER),
    "outer group emptied": lambda of, by: of.groups.patch(by, OUTER, patch(op="replace", path="members", value=[])),
    "outer group is no member": lambda of, by: of.groups.patch(by, ADMINS_ID, patch(op="remove", path='members[value eq "10"]')),
}


def before(tx: Tx) -> None:
    everybody = [Principal(user_name=each.user_name, user_id=each.user_id, is_admin=False) for each in (DIRECT, NESTED)]
    enter(tx, *everybody)
    for group_id, name in ((ADMINS_ID, "admins"), (OUTER, "outer"), (INNER, "inner")):
        if tx.groups.get(group_id) is None:
            tx.groups.put(GroupRow(group_id=group_id, display_name=name))
    tx.groups.add(ADMINS_ID, [DIRECT.user_id, OUTER])
    tx.groups.add(OUTER, [INNER])
    tx.groups.add(INNER, [NESTED.user_id])


def identity(store: Store) -> IdentityServices:
    return IdentityServices.build(store=store, clock=ManualClock(), ids=Ids(), authorizer=Authorizer(), homes=no_homes())


async def test_two_servers_at_once_leave_one(postgres: Postgres) -> None:
    url = postgres.new_database()
    one, other = Store.open(url, sharing=Always(alone=False)), Store.open(url, sharing=Always(alone=False))

    async def meet(first: Act, second: Act) -> None:
        await one.write(before)
        acts = (first(identity(one), NESTED), second(identity(other), DIRECT))
        answers = await asyncio.gather(*acts, return_exceptions=True)
        assert [each for each in answers if isinstance(each, BaseException) and not isinstance(each, ApiError)] == []
        assert any(isinstance(each, ApiError) for each in answers)
        assert await one.read(lambda tx: tx.groups.has_active_admin())

    try:
        for first in OF_DIRECT.values():
            for second in OF_NESTED.values():
                await meet(first, second)
    finally:
        one.close()
        other.close()
