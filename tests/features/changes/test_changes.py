"""Who is told of which changes, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from brickyard.access import Authorizer
from brickyard.domain.access import Grant, ObjectKind, Permission, Place, Principal, Visible
from brickyard.domain.caller import Caller
from brickyard.domain.errors import DatabaseAway, QuotaExceeded
from brickyard.domain.identity import UserRow
from brickyard.domain.policies import PolicyRow
from brickyard.features.changes import service as module
from brickyard.features.changes.service import Changed, Changes, Watcher
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster
from tests.support import world as shared
from tests.support.databases import both_databases
from tests.support.patience import PATIENCE_S
from tests.support.people import lock_out

ME = "me@example.com"


class Walls(Authorizer):
    """Meets `trouble` instead, once."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None

    def visible(self, tx: Tx, principal: Principal, kind: ObjectKind) -> Visible:
        trouble, self.trouble = self.trouble, None
        if trouble is not None:
            raise trouble
        return super().visible(tx, principal, kind)


class World(shared.World):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.walls = Walls()
        self.changes = Changes(store=store, clock=self.clock, ids=self.ids, authorizer=self.walls)

    async def me(self) -> Caller:
        await self.tokens.ensure_admin(ME, "dapi" + "1" * 32)
        caller = await self.tokens.authenticate("dapi" + "1" * 32)
        assert caller is not None
        return caller

    async def somebody(self) -> Caller:
        """No administrator."""
        user = UserRow(user_name="user@example.com", user_id="77")
        await self.store.write(lambda tx: tx.users.put(user))
        caller = Caller(user_name=user.user_name, user_id=user.user_id, is_admin=False, token_id="")
        token, _ = await self.tokens.create(caller)
        found = await self.tokens.authenticate(token)
        assert found is not None
        return found

    async def grant(self, name: str, *holders: str) -> None:
        grants = [Grant(holder, Permission.CAN_ATTACH_TO) for holder in holders]
        await self.store.write(lambda tx: tx.grants.put(Place(ObjectKind.CLUSTER, name), grants))

    async def change(self, name: str, *, owner: str = ME) -> None:
        row = msgspec.structs.replace(cluster(), cluster_id=name, creator_user_name=owner, idempotency_token="")
        await self.store.write(lambda tx: tx.clusters.insert(row))


@pytest.fixture
async def world(store: Store) -> World:
    async with asyncio.timeout(PATIENCE_S):
        while not store.told:  # the first answer of PostgreSQL is a gap, which is told right after that
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    return World(store)


async def told(changes: AsyncIterator[Changed | None]) -> Changed:
    """The next change."""
    while (change := await anext(changes)) is None:
        pass
    return change


def names(change: Changed) -> list[str]:
    """Of the objects that have changed."""
    assert change.objects is not None
    return [key.id for key in change.objects]


async def begun(watcher: Watcher) -> AsyncIterator[Changed | None]:
    """Its changes, after it was told to read everything."""
    changes = watcher.changes()
    assert (await told(changes)).objects is None
    return changes


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PACE_S", "RETRY_S", "IDLE_S"):
        monkeypatch.setattr(module, name, 0.01)


async def test_a_watcher_reads_everything_once_and_then_hears_of_each_change(world: World) -> None:
    changes = await begun(await world.changes.watch(await world.me()))
    await asyncio.gather(world.change("a"), world.change("b"))
    assert names(await told(changes)) == ["a", "b"]
    await world.change("c")
    assert names(await told(changes)) == ["c"]


async def test_who_comes_back_hears_what_was_missed(world: World) -> None:
    me = await world.me()
    changes = await begun(await world.changes.watch(me))
    await world.change("a")
    at = (await told(changes)).position
    await world.change("b")
    await world.change("c")
    again = (await world.changes.watch(me, after=at)).changes()
    assert names(await told(again)) == ["b", "c"]
    here = (await world.changes.watch(me, after=world.changes.position)).changes()
    assert await anext(here) is None, "nothing was missed"


@pytest.mark.parametrize("after", ["", "x", "-", "0-1", "{epoch}-", "{epoch}-9", "{epoch}-" + "9" * 5_000, "{epoch}--1"])
async def test_with_a_position_that_says_nothing_everything_is_read_again(world: World, after: str) -> None:
    epoch = world.changes.position.partition("-")[0]
    await begun(await world.changes.watch(await world.me(), after=after.format(epoch=epoch)))


async def test_what_is_forgotten_or_missed_is_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_IDS", 1)
    me = await world.me()
    start = world.changes.position
    for name in "ab":
        await world.change(name)
    again = (await world.changes.watch(me, after=start)).changes()
    assert (await told(again)).objects is None, "more ids than a watcher has room for"
    await world.change("c")
    assert names(await told(again)) == ["c"]


@both_databases
async def test_only_what_a_list_would_show_is_told(world: World) -> None:
    somebody = await world.somebody()
    changes = await begun(await world.changes.watch(somebody))
    await world.change("theirs", owner="other@example.com")
    await world.change("mine", owner=somebody.user_name)
    assert names(await told(changes)) == ["mine"]
    await world.grant("theirs", somebody.user_id)
    assert names(await told(changes)) == ["theirs"]


async def test_policies_are_told_to_those_who_may_use_them(world: World) -> None:
    somebody = await world.somebody()
    changes = await begun(await world.changes.watch(somebody))

    async def put(name: str, *holders: str) -> None:
        grants = [Grant(holder, Permission.CAN_USE) for holder in holders]
        row = PolicyRow(policy_id=name, name=name, creator_user_name=ME)

        def work(tx: Tx) -> None:
            tx.policies.put(row)
            tx.grants.put(Place(ObjectKind.CLUSTER_POLICY, name), grants)

        await world.store.write(work)

    await put("theirs")
    await put("shared", somebody.user_id)
    assert names(await told(changes)) == ["shared"]
    await world.store.write(lambda tx: tx.policies.delete("theirs"))
    await world.store.write(lambda tx: tx.policies.delete("shared"))
    assert names(await told(changes)) == ["shared"]


async def test_whoever_could_see_an_object_is_told_that_it_or_the_grant_is_gone(world: World) -> None:
    somebody = await world.somebody()
    for name in ("revoked", "deleted", "hidden"):
        await world.change(name, owner="other@example.com")
    await world.change("mine", owner=somebody.user_name)
    for name in ("revoked", "deleted"):
        await world.grant(name, somebody.user_id)
    changes = await begun(await world.changes.watch(somebody))
    await world.grant("revoked")
    assert names(await told(changes)) == ["revoked"]

    def remove(tx: Tx) -> None:
        for name in ("deleted", "hidden", "mine"):
            tx.clusters.delete(name)

    await world.store.write(remove)
    assert sorted(names(await told(changes)) or ()) == ["deleted", "mine"]
    await world.change("deleted", owner="other@example.com")  # what comes after it is not told
    await world.change("mine", owner=somebody.user_name)
    assert names(await told(changes)) == ["mine"]


async def test_what_is_deleted_is_said_to_be_so(world: World) -> None:
    """From the moment that calls no longer find it: the row of a cluster stays until nothing is left of it."""

    somebody = await world.somebody()
    every = await begun(await world.changes.watch(await world.me()))
    mine = await begun(await world.changes.watch(somebody))

    async def said() -> list[dict[str, bool]]:
        both = [await told(each) for each in (every, mine)]
        return [{key.id: key in change.deleted for key in change.objects or ()} for change in both]

    await world.change("a", owner=somebody.user_name)
    assert await said() == [{"a": False}, {"a": False}]

    def hide(tx: Tx) -> None:
        row = tx.clusters.get("a")
        assert row is not None
        tx.clusters.update(msgspec.structs.replace(row, deleted_ms=1))

    await world.store.write(hide)
    assert await said() == [{"a": True}, {"a": True}]
    await world.store.write(lambda tx: tx.clusters.delete("a"))
    assert await said() == [{"a": True}, {"a": True}]
    await world.store.write(lambda tx: tx.policies.put(PolicyRow(policy_id="p", name="p", creator_user_name=ME)))
    assert [key.id for key in (await told(every)).deleted] == []
    await world.store.write(lambda tx: tx.policies.delete("p"))
    assert [key.id for key in (await told(every)).deleted] == ["p"]


@both_databases
async def test_nothing_is_lost_while_the_database_is_away(world: World) -> None:
    changes = await begun(await world.changes.watch(await world.me()))
    world.walls.trouble = DatabaseAway("gone")
    await world.change("a")
    assert await anext(changes) is None
    assert world.walls.trouble is None
    assert names(await told(changes)) == ["a"]


@pytest.mark.parametrize("with_a_change", [True, False])
async def test_it_ends_with_the_token(world: World, with_a_change: bool) -> None:
    token, row = await world.tokens.create(await world.me())
    caller = await world.tokens.authenticate(token)
    assert caller is not None
    changes = await begun(await world.changes.watch(caller))
    await world.tokens.delete(caller, row.token_id)
    if with_a_change:
        await world.change("a")
    assert [each async for each in changes if each is not None] == []


async def test_it_ends_at_once_for_whoever_is_locked_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", PATIENCE_S)
    me = await world.me()
    changes = await begun(await world.changes.watch(me))
    waiting = asyncio.ensure_future(anext(changes, "ended"))
    await asyncio.sleep(0)
    await world.store.write(lambda tx: lock_out(tx, me))
    assert await waiting == "ended"


async def test_all_end_when_the_server_stops(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", PATIENCE_S)
    me = await world.me()
    changes = await begun(await world.changes.watch(me))
    waiting = asyncio.ensure_future(anext(changes, "ended"))
    await asyncio.sleep(0)
    world.changes.close()
    assert await waiting == "ended"
    assert [each async for each in (await world.changes.watch(me)).changes()] == []


async def test_a_user_has_a_number_of_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCHERS", module.WATCHERS._replace(share=2, admin_share=2))
    me = await world.me()
    first = await world.changes.watch(me)
    await world.changes.watch(me)
    with pytest.raises(QuotaExceeded):
        await world.changes.watch(me)
    first.close()
    first.close()
    await world.changes.watch(me)
    with pytest.raises(QuotaExceeded):
        await world.changes.watch(me)
