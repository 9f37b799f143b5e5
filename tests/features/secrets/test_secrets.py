"""The secrets service on both databases: permissions, limits, and the change of the key under the hands of writers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from brickyard.access import Authorizer
from brickyard.domain import secrets as rules
from brickyard.domain.access import Grant, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import (
    InvalidParameterValue,
    InvalidState,
    MalformedRequest,
    PermissionDenied,
    ResourceAlreadyExists,
    ResourceDoesNotExist,
    ResourceLimitExceeded,
)
from brickyard.domain.secrets import SecretName
from brickyard.features.secrets import service
from brickyard.features.secrets.service import SecretService
from brickyard.storage.vault import Vault
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, USER, refused
from tests.support.golden import Golden
from tests.support.people import ENTITLED, enter

OTHER = Caller(user_name="other@example.com", user_id="9", is_admin=False, token_id="o", entitlements=ENTITLED)
NAME = SecretName("s", "k")


class Shelf:
    """The service, as one server of a workspace has it."""

    def __init__(self, store: Store, place: Path, *, given: str = "") -> None:
        self.store = store
        self.key_file = place / "secrets.key"
        self.clock = ManualClock()
        vault = Vault(path=self.key_file, given=given)
        self.calls = SecretService(store=store, clock=self.clock, authorizer=Authorizer(), vault=vault)
        store.write_sync(lambda tx: enter(tx, ADMIN, USER, OTHER))

    async def filled(self) -> None:
        await self.calls.create_scope(USER, "s")
        await self.calls.put(USER, NAME, string_value="hunter2")

    async def value(self, name: SecretName = NAME, *, by: Caller = USER) -> bytes:
        return (await self.calls.get(by, name))[1]


@pytest.fixture
def shelf(store: Store, tmp_path: Path) -> Shelf:
    return Shelf(store, tmp_path)


async def test_a_secret_is_written_read_replaced_and_deleted(shelf: Shelf) -> None:
    await shelf.calls.create_scope(USER, "My.Scope-1_@")
    name = SecretName("my.scope-1_@", "Key.1")
    await shelf.calls.put(USER, name, string_value="grün")
    assert await shelf.calls.get(USER, SecretName("MY.SCOPE-1_@", "kEY.1")) == ("Key.1", "grün".encode())
    shelf.clock.advance(ms=5)
    await shelf.calls.put(USER, name, bytes_value=base64.b64encode(b"\0\xff").decode())
    assert await shelf.value(name) == b"\0\xff"
    (row,) = await shelf.calls.list_secrets(USER, "My.Scope-1_@")
    assert (row.key, row.updated_ms) == ("Key.1", shelf.clock.now_ms())
    assert [scope.name for scope in await shelf.calls.list_scopes(OTHER)] == ["My.Scope-1_@"]
    await shelf.calls.delete(USER, name)
    await refused(ResourceDoesNotExist, shelf.calls.get(USER, name))
    await refused(ResourceDoesNotExist, shelf.calls.delete(USER, name))
    await shelf.calls.put(USER, name, string_value="again")
    await shelf.calls.delete_scope(USER, "my.scope-1_@")
    assert await shelf.calls.list_scopes(USER) == []
    await shelf.calls.create_scope(OTHER, "my.scope-1_@")
    assert await shelf.calls.list_secrets(OTHER, "my.scope-1_@") == [], "a scope of the same name begins empty"
    await refused(PermissionDenied, shelf.calls.list_secrets(USER, "my.scope-1_@"))


Call = Callable[[SecretService, Caller], Coroutine[Any, Any, Any]]

READS: tuple[Call, ...] = (
    lambda s, who: s.get(who, NAME),
    lambda s, who: s.list_secrets(who, "S"),
)
WRITES: tuple[Call, ...] = (
    lambda s, who: s.put(who, NAME, string_value="new"),
    lambda s, who: s.put(who, SecretName("s", "gone"), string_value="x"),
    lambda s, who: s.delete(who, SecretName("S", "gone")),
)
MANAGES: tuple[Call, ...] = (
    lambda s, who: s.list_acls(who, "s"),
    lambda s, who: s.get_acl(who, "s", USER.user_name),
    lambda s, who: s.put_acl(who, "s", Grant("admins", Permission.READ)),
    lambda s, who: s.delete_acl(who, "s", "admins"),
    lambda s, who: s.delete_scope(who, "s"),
)


@both_databases
@pytest.mark.parametrize("level", [None, Permission.READ, Permission.WRITE, Permission.MANAGE])
@pytest.mark.parametrize("principal", [OTHER.user_name, "users"])
async def test_each_level_includes_those_below_and_no_more(shelf: Shelf, level: Permission | None, principal: str) -> None:
    await shelf.filled()
    if level is not None:
        await shelf.calls.put_acl(USER, "s", Grant(principal, level))
    levels = (Permission.READ, Permission.WRITE, Permission.MANAGE)
    reach = -1 if level is None else levels.index(level)
    for at, calls in enumerate((READS, WRITES, MANAGES)):
        for call in calls:
            if at <= reach:
                await call(shelf.calls, OTHER)
            else:
                why = await refused(PermissionDenied, call(shelf.calls, OTHER))
                assert levels[at].value in why
                assert "hunter2" not in why


async def test_administrators_manage_every_scope_and_others_start_with_nothing(shelf: Shelf, golden: Golden) -> None:
    await shelf.filled()
    assert await shelf.value(by=ADMIN) == b"hunter2"
    await shelf.calls.put_acl(ADMIN, "s", Grant("admins", Permission.MANAGE))
    await refused(PermissionDenied, shelf.calls.get(OTHER, NAME))
    await shelf.calls.put_acl(ADMIN, "s", Grant(OTHER.user_name, Permission.READ))
    assert await shelf.value(by=OTHER) == b"hunter2"
    await shelf.calls.delete_acl(ADMIN, "s", OTHER.user_name)
    await refused(PermissionDenied, shelf.calls.get(OTHER, NAME))
    await refused(ResourceDoesNotExist, shelf.calls.get_acl(ADMIN, "s", OTHER.user_name))
    await shelf.calls.create_scope(OTHER, "everybodys", initial_manage_principal="users")
    await shelf.calls.put(USER, SecretName("everybodys", "k"), string_value="v")
    assert "users" in await refused(
        InvalidParameterValue, shelf.calls.create_scope(USER, "x", initial_manage_principal=USER.user_name)
    )
    nobody = Grant("nobody@example.com", Permission.READ)
    golden(await refused(InvalidParameterValue, shelf.calls.put_acl(USER, "s", nobody)))


async def test_limits_and_bad_values(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    await shelf.filled()
    calls = shelf.calls
    await calls.put(USER, NAME, string_value="é" * (rules.MAX_BYTES // 2))
    await refused(InvalidParameterValue, calls.put(USER, NAME, string_value="é" * (rules.MAX_BYTES // 2) + "x"))
    await refused(MalformedRequest, calls.put(USER, NAME))
    await refused(MalformedRequest, calls.put(USER, NAME, string_value="a", bytes_value="YQ=="))
    golden(await refused(InvalidParameterValue, calls.put(USER, NAME, bytes_value="***")))
    for bad in ("", "a b", "a" * 129, "a:b", "{{x}}", "a\n"):
        await refused(InvalidParameterValue, calls.put(USER, SecretName("s", bad), string_value="v"))
        await refused(InvalidParameterValue, calls.create_scope(USER, bad))
    await refused(ResourceAlreadyExists, calls.create_scope(OTHER, "S"))
    for call in (*READS, *WRITES, *MANAGES):
        await calls.delete_scope(USER, "s")
        golden(await refused(ResourceDoesNotExist, call(calls, USER)))
        await calls.create_scope(USER, "s")
    monkeypatch.setattr(service, "MAX_SECRETS", 2)
    monkeypatch.setattr(service, "SCOPES", service.SCOPES._replace(total=4, share=2, reserve=1))
    for key in ("k", "l"):
        await calls.put(USER, SecretName("s", key), string_value="v")
    await refused(ResourceLimitExceeded, calls.put(USER, SecretName("s", "m"), string_value="v"))
    await calls.put(USER, SecretName("s", "K"), string_value="an old one may be replaced")
    await calls.create_scope(USER, "t")
    await refused(ResourceLimitExceeded, calls.create_scope(USER, "u"))
    await calls.create_scope(OTHER, "u")
    await refused(ResourceLimitExceeded, calls.create_scope(OTHER, "v"))  # the last one is for administrators
    await calls.create_scope(ADMIN, "v")
    await refused(ResourceLimitExceeded, calls.create_scope(ADMIN, "w"))


async def test_the_key_changes_while_secrets_are_written(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes meanwhile, also through another server: nothing is lost, and the old key is of no use in the end."""
    monkeypatch.setattr(service, "BATCH", 3)

    await shelf.filled()
    another = Shelf(shelf.store, shelf.key_file.parent)
    for number in range(10):
        await shelf.calls.put(USER, SecretName("s", f"k{number}"), string_value=f"v{number}")
    old = shelf.key_file.read_text()
    await refused(PermissionDenied, shelf.calls.rotate_key(USER))

    async def write() -> None:
        for number in range(20):
            await another.calls.put(USER, SecretName("s", f"k{number}"), string_value=f"v{number}")

    rotated, _ = await asyncio.gather(shelf.calls.rotate_key(ADMIN), write())
    assert rotated >= 1
    assert old.strip() not in shelf.key_file.read_text()
    assert len(shelf.key_file.read_text().split()) == 1
    assert shelf.store.read_sync(lambda tx: len(tx.secrets.key_ids())) == 1
    for number in range(20):
        assert await another.value(SecretName("s", f"k{number}")) == f"v{number}".encode()
    assert await shelf.calls.trouble() == ""


async def test_a_rotation_that_was_cut_off_is_finished_by_the_next(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "BATCH", 2)

    await shelf.filled()
    for number in range(5):
        await shelf.calls.put(USER, SecretName("s", f"k{number}"), string_value=f"v{number}")
    rewrap = shelf.calls._rewrap
    for limit in (0, 1, 2):  # killed after so many steps, each of which is committed
        done = 0

        def step(tx: Any, current: str, limit: int = limit) -> int:
            nonlocal done
            if done == limit:
                raise KeyboardInterrupt
            done += 1
            return rewrap(tx, current)

        monkeypatch.setattr(shelf.calls, "_rewrap", step)
        with pytest.raises(KeyboardInterrupt):
            await shelf.calls.rotate_key(ADMIN)
        assert await shelf.value() == b"hunter2"
        assert await shelf.value(SecretName("s", "k4")) == b"v4"
    monkeypatch.setattr(shelf.calls, "_rewrap", rewrap)
    await shelf.calls.rotate_key(ADMIN)
    assert len(shelf.key_file.read_text().split()) == 1
    assert [await shelf.value(SecretName("s", f"k{number}")) for number in range(5)] == [b"v%d" % n for n in range(5)]


@both_databases
async def test_keys_of_the_setting_rotate_to_the_first(shelf: Shelf) -> None:
    place = shelf.key_file.parent
    await Shelf(shelf.store, place, given="1" * 64).filled()
    await Shelf(shelf.store, place, given=f"{'2' * 64}, {'1' * 64}").calls.rotate_key(ADMIN)
    assert await Shelf(shelf.store, place, given="2" * 64).value() == b"hunter2"
    assert not shelf.key_file.exists()


@both_databases
async def test_with_a_lost_key_nothing_is_overwritten_and_the_scopes_are_named(shelf: Shelf, golden: Golden) -> None:
    await shelf.filled()
    kept = shelf.key_file.read_text()
    shelf.key_file.write_text("3" * 64)
    why = await shelf.calls.trouble()
    assert "Restore" in why
    golden(why)
    for call in (lambda: shelf.calls.get(USER, NAME), lambda: shelf.calls.put(USER, NAME, string_value="new")):
        assert "Restore" in await refused(InvalidState, call())
    shelf.key_file.write_text(kept)
    assert await shelf.value() == b"hunter2"
    # Lost for good: once the scope is deleted, secrets work with the key that there is.
    shelf.key_file.write_text("3" * 64)
    await shelf.calls.delete_scope(USER, "s")
    await shelf.filled()
    assert await shelf.calls.trouble() == ""


@both_databases
def test_no_value_is_in_the_database(shelf: Shelf) -> None:
    asyncio.run(shelf.filled())

    def rows(tx: Any) -> str:
        return repr([tx._connection.exec_driver_sql(f"SELECT * FROM {table}").all() for table in ("secrets", "secret_scopes")])  # noqa: S608 - our own names

    found = shelf.store.read_sync(rows)
    assert "secret" in found or "'s'" in found
    assert "hunter2" not in found
