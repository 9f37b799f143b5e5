"""Who may call: identities with the rights of their groups, known for a moment, and forgotten as soon as anything changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from brickyard.access import Authorizer
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.domain.identity import ADMINS_ID, USERS_ID, GroupRow, UserRow
from brickyard.features.credentials.tokens import SHARED_CACHE_MS, TokenService
from brickyard.store.commits import Commits
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.clock import ManualClock
from tests.support.postgres import Postgres
from tests.support.world import World

ANNA = UserRow(user_name="anna@example.com", user_id="5", entitlements=("allow-cluster-create",))
OUTER = GroupRow(group_id="7", display_name="Data", entitlements=("allow-instance-pool-create",))
INNER = GroupRow(group_id="8", display_name="Engineers")


class Gate:
    """One server's authentication. The clock stands still, so that only notices end what is kept."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tokens = World(store).tokens
        self.token = ""

    async def enter(self) -> Caller:
        await self.store.write(lambda tx: tx.users.put(ANNA))
        me = Caller(user_name=ANNA.user_name, user_id=ANNA.user_id, is_admin=False, token_id="")
        self.token, _ = await self.tokens.create(me)
        caller = await self.who()
        assert caller is not None
        return caller

    async def who(self) -> Caller | None:
        return await self.tokens.authenticate(self.token)


@pytest.fixture
def gate(store: Store) -> Gate:
    return Gate(store)


async def test_groups_give_their_rights_through_other_groups(gate: Gate) -> None:
    caller = await gate.enter()
    assert (set(caller.group_ids), caller.is_admin) == ({USERS_ID}, False)
    assert caller.entitlements == {"allow-cluster-create", "workspace-access", "databricks-sql-access"}

    def nest(tx: Tx) -> None:
        for group in (OUTER, INNER):
            tx.groups.put(group)
        tx.groups.add("8", ["5"])
        tx.groups.add("7", ["8"])
        tx.groups.add("8", ["7", "5"])  # a circle must not be written, and would do no harm

    await gate.store.write(nest)
    found = await gate.who()
    assert found is not None
    assert (set(found.group_ids), found.is_admin) == ({USERS_ID, "7", "8"}, False)
    assert "allow-instance-pool-create" in found.entitlements
    await gate.store.write(lambda tx: tx.groups.add(ADMINS_ID, ["7"]))
    found = await gate.who()
    assert found is not None
    assert found.is_admin
    await gate.store.write(lambda tx: tx.groups.remove("8", ["5"]))
    assert await gate.who() == caller


def lock_out(tx: Tx) -> None:
    tx.users.put(msgspec.structs.replace(ANNA, active=False))


def revoke(tx: Tx) -> None:
    for row in tx.tokens.of_user(ANNA.user_name):
        tx.tokens.delete(row.token_id)


@pytest.mark.parametrize("change", [lock_out, revoke])
async def test_whoever_is_locked_out_is_nobody_at_once(gate: Gate, change: Callable[[Tx], None]) -> None:
    await gate.enter()
    await gate.store.write(change)
    assert await gate.who() is None
    await gate.store.write(lambda tx: tx.users.put(ANNA))
    assert (await gate.who() is not None) == (change is lock_out)


async def test_a_caller_is_not_kept_if_something_changes_while_it_is_read(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    await gate.enter()
    await gate.store.write(lambda tx: tx.users.put(ANNA))  # forgets the caller
    read = gate.store.read

    async def slow(work: Callable[[Tx], object]) -> object:
        found = await read(work)
        await gate.store.write(lock_out)
        return found

    monkeypatch.setattr(gate.store, "read", slow)
    assert await gate.who() is not None
    monkeypatch.undo()
    assert await gate.who() is None


async def test_reading_nothing_while_nothing_changes(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = await gate.enter()
    monkeypatch.delattr(gate.store.__class__, "read")
    assert await gate.who() is caller


@pytest.mark.parametrize("change", [lock_out, revoke])
async def test_other_servers_hear_of_it(postgres: Postgres, change: Callable[[Tx], None]) -> None:
    url = postgres.new_database()
    here, there = Store.open(url), Store.open(url)

    try:
        gate, other = Gate(here), Gate(there)
        await gate.enter()
        other.token = gate.token
        while not there.told or await other.who() is None:
            await asyncio.sleep(0.01)
        await gate.store.write(change)
        while await other.who() is not None:
            await asyncio.sleep(0.01)
    finally:
        here.close()
        there.close()


async def test_a_lost_notice_costs_a_second(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres.new_database()
    monkeypatch.setattr(Commits, "_tell", lambda *_: None)
    here, there = Store.open(url), Store.open(url)

    try:
        gate, clock = Gate(here), ManualClock()
        other = Gate(there)
        other.tokens = TokenService(store=there, clock=clock, ids=Ids(), authorizer=Authorizer(), key=b"k" * 32)
        await gate.enter()
        other.token = gate.token
        assert await other.who() is not None
        await gate.store.write(lock_out)
        assert await other.who() is not None
        clock.advance(ms=SHARED_CACHE_MS)
        assert await other.who() is None
    finally:
        here.close()
        there.close()
