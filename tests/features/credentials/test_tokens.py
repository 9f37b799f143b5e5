"""Personal access tokens: how they are stored, when they count, who manages them. On both databases."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from brickyard.access.credentials import renewed
from brickyard.domain.errors import InvalidParameterValue, PermissionDenied, ResourceDoesNotExist
from brickyard.domain.identity import NEVER, CredentialKind, TokenRow
from brickyard.features.credentials.tokens import CACHE_MS
from brickyard.store.store import Store
from tests.support.credentials import ME, OTHER, World
from tests.support.databases import both_databases


async def test_only_a_keyed_hash_is_stored(world: World) -> None:
    token, row = await world.tokens.create(world.me)
    stored = world.rows()[0].digest
    assert token not in stored
    assert hashlib.sha256(token.encode()).hexdigest() not in stored
    assert row.digest == stored
    assert await world.tokens.authenticate(token) is not None
    assert await world.server(b"x" * 32).authenticate(token) is None, "a row of another workspace counts"


@both_databases
async def test_tokens_of_older_versions_go_on_working(world: World, store: Store) -> None:
    old = TokenRow(
        token_id="old",
        digest=hashlib.sha256(b"dapi-old").hexdigest(),
        user_name=ME,
        comment="",
        created_ms=0,
        expiry_ms=NEVER,
    )
    store.write_sync(lambda tx: tx.tokens.insert(old))
    assert await world.tokens.authenticate("dapi-old") is None, "a plain hash counts"
    for _ in range(2):
        await world.tokens.key_digests()
        assert world.rows()[0].digest != old.digest
    found = await world.tokens.authenticate("dapi-old")
    assert found is not None
    assert found.token_id == "old"


@pytest.mark.parametrize("kind", [each for each in CredentialKind if each not in ("pat", "access")])
async def test_other_credentials_are_no_bearer_tokens(world: World, store: Store, kind: CredentialKind) -> None:
    token, row = await world.tokens.create(world.me)
    store.write_sync(lambda tx: tx.tokens.delete(row.token_id))
    store.write_sync(lambda tx: tx.tokens.insert(msgspec.structs.replace(row, kind=kind)))
    assert await world.tokens.authenticate(token) is None


async def test_last_use_is_written_in_the_background(world: World, store: Store) -> None:
    me = world.me
    token, _ = await world.tokens.create(me)
    await world.tokens.use.run_once()
    assert world.rows()[0].last_used_ms == 0
    for _ in range(3):
        world.clock.advance(ms=1)
        await world.tokens.authenticate(token)
    used = world.clock.now_ms()
    assert world.rows()[0].last_used_ms == 0, "a request wrote it"
    await world.tokens.use.run_once()
    assert world.rows()[0].last_used_ms == used
    await store.write(lambda tx: tx.tokens.used({world.rows()[0].token_id: used - 1}))
    assert world.rows()[0].last_used_ms == used, "an earlier use replaced a later one"


async def test_a_revoked_token_is_refused_and_does_not_come_back(world: World, store: Store) -> None:
    me = world.me
    token, row = await world.tokens.create(me)
    found = await world.tokens.authenticate(token)
    assert found is not None
    assert store.read_sync(lambda tx: renewed(tx, found, now_ms=0, made_by_ms=row.created_ms)) is not None
    await world.tokens.delete(me, row.token_id)
    for _ in range(3):
        assert await world.tokens.authenticate(token) is None
        assert await world.server().authenticate(token) is None
        world.clock.advance(ms=CACHE_MS)
    assert store.read_sync(lambda tx: renewed(tx, found, now_ms=0, made_by_ms=row.created_ms)) is None
    with pytest.raises(ResourceDoesNotExist):
        await world.tokens.delete(me, row.token_id)


async def test_a_token_ends_with_its_lifetime(world: World) -> None:
    me = world.me
    token, _ = await world.tokens.create(me, lifetime_seconds=1)
    assert await world.tokens.authenticate(token) is not None
    world.clock.advance(ms=1_000)
    assert await world.tokens.authenticate(token) is None
    assert await world.tokens.list(me) == []
    for lifetime in (0, -1, 10**12):
        with pytest.raises(InvalidParameterValue, match="lifetime_seconds"):
            await world.tokens.create(me, lifetime_seconds=lifetime)


@both_databases
async def test_administrators_manage_the_tokens_of_others(world: World) -> None:
    root, me, other = await world.root(), world.me, await world.user(OTHER)
    token, mine = await world.tokens.create(me, comment="of me")
    await world.tokens.create(other)
    assert {each.creator for each in await world.management.list(root)} == {ME, OTHER, root.user_name}
    for selected in ({"created_by": ME.upper()}, {"created_by_id": int(me.user_id)}):
        assert [each.row.token_id for each in await world.management.list(root, **selected)] == [mine.token_id]
    assert await world.management.list(root, created_by="nobody") == []
    found = await world.management.get(root, mine.token_id)
    assert (found.row.comment, found.owner_id, found.creator_id) == ("of me", me.user_id, me.user_id)
    assert (await world.management.update(root, mine.token_id, comment="new")).row.comment == "new"
    assert await world.tokens.authenticate(token) is not None
    await world.management.delete(root, mine.token_id)
    assert await world.tokens.authenticate(token) is None
    with pytest.raises(ResourceDoesNotExist):
        await world.management.get(root, mine.token_id)


async def test_nobody_else_does(world: World) -> None:
    me, other = world.me, await world.user(OTHER)
    token, row = await world.tokens.create(me, comment="mine")
    for refused in (
        world.management.list(other),
        world.management.get(other, row.token_id),
        world.management.update(other, row.token_id, comment="x"),
        world.management.delete(other, row.token_id),
    ):
        with pytest.raises(PermissionDenied):
            await refused
    for missing in (world.tokens.delete(other, row.token_id), world.tokens.update(other, row.token_id, comment="x")):
        with pytest.raises(ResourceDoesNotExist):
            await missing
    assert [each.comment for each in await world.tokens.list(me)] == ["mine"]
    assert await world.tokens.authenticate(token) is not None
