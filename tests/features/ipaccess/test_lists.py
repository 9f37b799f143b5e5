"""The lists and the settings in a database, and the gate that each server has."""

from __future__ import annotations

import asyncio

import pytest

from brickyard.access import conf
from brickyard.domain.caller import Caller
from brickyard.domain.errors import (
    InvalidParameterValue,
    InvalidState,
    PermissionDenied,
    QuotaExceeded,
    ResourceDoesNotExist,
)
from brickyard.domain.identity import NEVER
from brickyard.domain.sources import HERE, UNKNOWN
from brickyard.features.ipaccess.gate import AddressGate
from brickyard.features.ipaccess.model import (
    CreateIpAccessList,
    DeleteIpAccessList,
    IpAccessListId,
    ListType,
    ReplaceIpAccessList,
    UpdateIpAccessList,
)
from brickyard.features.ipaccess.service import IpAccessListService, require_way_in
from brickyard.features.workspaceconf.rules import CONSTANTS, KEYS
from brickyard.features.workspaceconf.service import WorkspaceConfService
from brickyard.store.store import Store
from tests.support.databases import both_databases
from tests.support.postgres import Postgres
from tests.support.world import World

ADMIN = Caller(user_name="admin", user_id="1", is_admin=True, token_id="t")
USER = Caller(user_name="anna", user_id="2", is_admin=False, token_id="u")
ME = "203.0.113.9"


class Door(World):
    """One server: its services, and the gate."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.lists = IpAccessListService(**self.common)
        self.conf = WorkspaceConfService(store=store, authorizer=self.authorizer, require_way_in=require_way_in)
        self.noted: list[str] = []
        self.gate = AddressGate(store=store, workspace_id="42", note=self.noted.append)

    async def set(self, key: str, value: object, source: str = HERE) -> None:
        await self.conf.change(ADMIN, {key: value}, source=source)

    async def turn_on(self) -> None:
        await self.set(conf.IP_ACCESS_LISTS, "true")

    async def make(self, kind: ListType, *addresses: str, source: str = HERE) -> str:
        request = CreateIpAccessList(label="office", list_type=kind, ip_addresses=list(addresses), source=source)
        return (await self.lists.create(ADMIN, request)).list_id

    async def admits(self, source: str) -> bool:
        try:
            await self.gate.admit(source)
        except PermissionDenied:
            return False
        return True


@pytest.fixture
def door(store: Store) -> Door:
    return Door(store)


@both_databases
async def test_a_list_acts_once_the_feature_is_on(door: Door) -> None:
    list_id = await door.make(ListType.BLOCK, "10.0.0.0/8")
    assert await door.admits("10.1.1.1")
    await door.turn_on()
    assert not await door.admits("10.1.1.1")
    assert await door.admits(ME)
    await door.lists.update(ADMIN, UpdateIpAccessList(ip_access_list_id=list_id, enabled=False, source=HERE))
    assert await door.admits("10.1.1.1")
    changed = UpdateIpAccessList(ip_access_list_id=list_id, enabled=True, ip_addresses=["10.2.0.0/16"], source=HERE)
    await door.lists.update(ADMIN, changed)
    assert (await door.admits("10.1.1.1"), await door.admits("10.2.1.1")) == (True, False)
    await door.lists.delete(ADMIN, DeleteIpAccessList(ip_access_list_id=list_id, source=HERE))
    assert await door.admits("10.2.1.1")
    assert door.noted == ["10.1.1.1", "10.2.1.1"]


async def test_an_allow_list_keeps_all_others_out(door: Door) -> None:
    await door.turn_on()
    await door.make(ListType.ALLOW, ME, "2001:db8::/32")
    assert [await door.admits(each) for each in (ME, "2001:db8::5", "10.0.0.1", HERE, UNKNOWN)] == [
        True,
        True,
        False,
        True,
        False,
    ]
    await door.make(ListType.BLOCK, "2001:db8::5")
    assert not await door.admits("2001:db8::5")
    await door.set(conf.IP_ACCESS_LISTS, "false")
    assert await door.admits("10.0.0.1")


@both_databases
async def test_nobody_locks_themselves_out(door: Door) -> None:
    await door.turn_on()
    for kind, addresses in ((ListType.BLOCK, [ME]), (ListType.ALLOW, ["10.0.0.0/8"]), (ListType.ALLOW, [])):
        with pytest.raises(InvalidState):
            await door.make(kind, *addresses, source=ME)
    with pytest.raises(InvalidState, match="trusted_proxies"):
        await door.make(ListType.ALLOW, ME, source=UNKNOWN)
    mine = await door.make(ListType.ALLOW, ME, source=ME)
    others = await door.make(ListType.ALLOW, "10.0.0.0/8", source=ME)
    with pytest.raises(InvalidState):
        await door.lists.delete(ADMIN, DeleteIpAccessList(ip_access_list_id=mine, source=ME))
    with pytest.raises(InvalidState):
        await door.lists.update(ADMIN, UpdateIpAccessList(ip_access_list_id=mine, enabled=False, source=ME))
    with pytest.raises(InvalidState):
        blocks = ReplaceIpAccessList(
            ip_access_list_id=mine, label="l", list_type=ListType.BLOCK, enabled=True, ip_addresses=[ME], source=ME
        )
        await door.lists.replace(ADMIN, blocks)
    await door.lists.delete(ADMIN, DeleteIpAccessList(ip_access_list_id=others, source=ME))
    await door.lists.delete(ADMIN, DeleteIpAccessList(ip_access_list_id=mine, source=ME))
    await door.set(conf.IP_ACCESS_LISTS, "false", source=ME)
    await door.make(ListType.BLOCK, ME, source=ME)
    with pytest.raises(InvalidState):
        await door.set(conf.IP_ACCESS_LISTS, "true", source=ME)
    assert await door.conf.get(ADMIN, [conf.IP_ACCESS_LISTS]) == {conf.IP_ACCESS_LISTS: "false"}
    assert await door.admits(ME)


@both_databases
async def test_two_changes_at_once_do_not_lock_out_together(door: Door) -> None:
    """Each is harmless alone: one turns the feature on, the other blocks."""
    results = await asyncio.gather(
        door.set(conf.IP_ACCESS_LISTS, "true", source=ME), door.make(ListType.BLOCK, ME, source=ME), return_exceptions=True
    )
    assert [type(each) for each in results].count(InvalidState) == 1
    assert await door.admits(ME)


async def test_what_a_list_is(door: Door) -> None:
    made = await door.lists.create(
        ADMIN, CreateIpAccessList(label="office", list_type=ListType.BLOCK, ip_addresses=["10.0.0.1", "10.0.0.0/8"])
    )
    assert (made.address_count, made.created_by, made.updated_by) == (2, 1, 1)
    assert made.created_at == made.updated_at == door.clock.now_ms()
    door.clock.advance(ms=5)
    replaced = await door.lists.replace(
        Caller(user_name="b", user_id="9", is_admin=True, token_id="t"),
        ReplaceIpAccessList(ip_access_list_id=made.list_id, label="new", list_type=ListType.ALLOW, enabled=False),
    )
    assert (replaced.label, replaced.list_type, replaced.enabled, replaced.ip_addresses) == ("new", ListType.ALLOW, False, ())
    assert (replaced.address_count, replaced.created_by, replaced.updated_by) == (0, 1, 9)
    assert replaced.updated_at > replaced.created_at
    assert await door.lists.list(ADMIN) == [replaced]
    assert await door.lists.get(ADMIN, IpAccessListId(ip_access_list_id=made.list_id.upper())) == replaced
    with pytest.raises(ResourceDoesNotExist):
        await door.lists.get(ADMIN, IpAccessListId(ip_access_list_id="none"))
    with pytest.raises(InvalidParameterValue, match="label"):
        await door.lists.update(ADMIN, UpdateIpAccessList(ip_access_list_id=made.list_id, label=" "))
    with pytest.raises(QuotaExceeded):
        await door.make(ListType.BLOCK, *["10.0.0.1"] * 1_001)
    assert await door.lists.list(ADMIN) == [replaced]


async def test_only_administrators(door: Door) -> None:
    with pytest.raises(PermissionDenied):
        await door.lists.list(USER)
    with pytest.raises(PermissionDenied):
        await door.conf.get(USER, [conf.TOKENS])
    with pytest.raises(PermissionDenied):
        await door.conf.change(USER, {conf.TOKENS: "false"}, source=HERE)


async def test_settings_are_kept_and_what_cannot_be_is_refused(door: Door) -> None:
    assert await door.conf.get(ADMIN, [*KEYS, *CONSTANTS]) == {
        conf.IP_ACCESS_LISTS: "false", conf.TOKENS: "true", conf.RESULTS_DOWNLOAD: "true", conf.TOKEN_DAYS: None, **CONSTANTS,
    }  # fmt: skip
    await door.conf.change(ADMIN, {conf.TOKEN_DAYS: 90, conf.TOKENS: True, "enableGp3": "False"}, source=HERE)
    assert await door.conf.get(ADMIN, [conf.TOKEN_DAYS, conf.TOKENS]) == {conf.TOKEN_DAYS: "90", conf.TOKENS: "true"}
    await door.set(conf.TOKEN_DAYS, "")
    assert await door.conf.get(ADMIN, [conf.TOKEN_DAYS]) == {conf.TOKEN_DAYS: None}
    for key, value in (
        (conf.IP_ACCESS_LISTS, ""), (conf.TOKENS, "yes"), (conf.TOKEN_DAYS, "0"), (conf.TOKEN_DAYS, "731"),
        (conf.TOKEN_DAYS, "false"), (conf.TOKEN_DAYS, "1.5"), ("enableDeprecatedGlobalInitScripts", "true"),
    ):  # fmt: skip
        with pytest.raises(InvalidParameterValue, match=r"^Some values are not allowed: \{"):
            await door.conf.change(ADMIN, {conf.TOKEN_DAYS: "5", key: value}, source=HERE)
    with pytest.raises(InvalidParameterValue, match=r'^Invalid keys: \["a","b"\]$'):
        await door.conf.change(ADMIN, {"b": "1", conf.TOKENS: "true", "a": "1"}, source=HERE)
    with pytest.raises(InvalidParameterValue, match=r'^Invalid keys: \["b"\]$'):
        await door.conf.get(ADMIN, [conf.TOKENS, "b"])
    assert await door.conf.get(ADMIN, [conf.TOKEN_DAYS]) == {conf.TOKEN_DAYS: None}


async def test_new_tokens_live_no_longer_than_the_workspace_allows(door: Door) -> None:
    await door.token("anna")
    await door.set(conf.TOKEN_DAYS, "2")
    most_s = 2 * conf.DAY_S
    _, row = await door.tokens.create(USER)
    assert row.expiry_ms - row.created_ms == most_s * 1000
    _, row = await door.tokens.create(USER, lifetime_seconds=60)
    assert row.expiry_ms - row.created_ms == 60_000
    with pytest.raises(InvalidParameterValue, match="maxTokenLifetimeDays"):
        await door.tokens.create(USER, lifetime_seconds=most_s + 1)
    await door.set(conf.TOKEN_DAYS, "")
    assert (await door.tokens.create(USER))[1].expiry_ms == NEVER


async def test_tokens_are_turned_off_and_on(door: Door) -> None:
    token, admin_token = await door.token("anna"), "dapi" + "a" * 32
    await door.tokens.ensure_admin("admin", admin_token)
    assert await door.tokens.authenticate(token) is not None
    await door.set(conf.TOKENS, "false")
    assert await door.tokens.authenticate(token) is None
    assert await door.tokens.authenticate(admin_token) is not None, "the way back"
    with pytest.raises(PermissionDenied, match="enableTokensConfig"):
        await door.tokens.create(USER)
    await door.set(conf.TOKENS, "true")
    assert await door.tokens.authenticate(token) is not None


async def test_a_change_on_one_server_is_in_force_on_the_others(postgres: Postgres) -> None:
    url = postgres.new_database(template=postgres.migrated)
    first, second = Store.open(url), Store.open(url)
    try:
        one, two = Door(first), Door(second)
        assert await two.admits(ME)
        await one.turn_on()
        await one.make(ListType.BLOCK, ME)
        assert not await one.admits(ME), "as soon as it is answered"
        deadline = asyncio.get_running_loop().time() + 20
        while await two.admits(ME):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.02)
    finally:
        first.close()
        second.close()


async def test_the_gate_reads_once_and_again_after_a_change(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    if not door.store.alone:
        pytest.skip("a server that is not alone reads every second")
    reads, read = 0, door.store.read

    async def counted(*args: object, **options: object) -> object:
        nonlocal reads
        reads += 1
        return await read(*args, **options)  # type: ignore[arg-type] # as they are

    monkeypatch.setattr(door.store, "read", counted)
    await asyncio.gather(*(door.admits(ME) for _ in range(10)))
    assert reads == 1
    await door.turn_on()
    await asyncio.gather(*(door.admits(ME) for _ in range(10)))
    assert reads == 2
