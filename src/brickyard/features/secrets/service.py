"""The Secrets API's calls. Values leave the database only to somebody with READ permission on their scope."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TypeVar

from brickyard.access import Authorizer
from brickyard.access.holders import group_holder, named, user_holder
from brickyard.access.objects import WORKSPACE, of_scope
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import (
    InvalidParameterValue,
    InvalidState,
    MalformedRequest,
    ResourceAlreadyExists,
    ResourceDoesNotExist,
    ResourceLimitExceeded,
)
from brickyard.domain.identity import USERS_ID, fold_name
from brickyard.domain.quotas import Quota
from brickyard.domain.secrets import (
    MAX_BYTES,
    MAX_SECRETS,
    ScopeRow,
    SecretName,
    SecretRow,
    check_key,
    check_scope,
    fold,
)
from brickyard.storage.vault import Vault, VaultError
from brickyard.store.store import Store
from brickyard.store.tx import Tx

T = TypeVar("T")
SCOPES = Quota("secret scopes", total=1_000, share=100, reserve=50, advice="Delete one first.")
MAX_GRANTS = 1_000  # per scope, as in Databricks
BATCH = 500  # secrets that one transaction of a rotation takes
_USERS = "users"  # the name of the group with USERS_ID
_SHOWN = 5
_LOCK = "secrets"  # writers take turns: no secret is put with a key that is being removed, or into a scope that is


class SecretService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, store: Store, clock: Clock, authorizer: Authorizer, vault: Vault) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._vault = vault

    # -- scopes --------------------------------------------------------------------------------------------------------

    async def create_scope(self, caller: Caller, scope: str, *, initial_manage_principal: str = "") -> None:
        """Creates a scope that the caller, or every user, manages."""

        def work(tx: Tx) -> None:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="create secret scopes in the")
            check_scope(scope)
            if initial_manage_principal not in ("", _USERS):
                raise InvalidParameterValue(
                    f"initial_manage_principal is {initial_manage_principal[:140]!r}; it can only be {_USERS!r}, or absent: then "
                    "you manage the scope and can give others permissions with acls/put."
                )
            tx.lock(_LOCK)
            if tx.secrets.scope(fold(scope)) is not None:
                raise ResourceAlreadyExists(f"Scope {scope} already exists.")
            creators = [each.creator for each in tx.secrets.scopes()]
            if why := SCOPES.refusal(caller, own=creators.count(caller.user_name), total=len(creators)):
                raise ResourceLimitExceeded(why)
            row = ScopeRow(name=scope, created_ms=self._clock.now_ms(), creator=caller.user_name)
            tx.secrets.insert_scope(fold(scope), row)
            tx.grants.put(_place(scope), [Grant(USERS_ID if initial_manage_principal else caller.user_id, Permission.MANAGE)])

        await self._store.write(work)

    async def delete_scope(self, caller: Caller, scope: str) -> None:
        """Deletes a scope with all its secrets and permissions."""

        def work(tx: Tx) -> None:
            self._find(tx, caller, scope, Permission.MANAGE, to="delete", locked=True)
            tx.secrets.delete_scope(fold(scope))

        await self._store.write(work)

    async def list_scopes(self, caller: Caller) -> list[ScopeRow]:
        """All scopes: their names are no secrets."""

        def work(tx: Tx) -> list[ScopeRow]:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="list the secret scopes of the")
            return tx.secrets.scopes()

        return await self._store.read(work)

    # -- secrets -------------------------------------------------------------------------------------------------------

    async def put(
        self, caller: Caller, name: SecretName, *, string_value: str | None = None, bytes_value: str | None = None
    ) -> None:
        """Writes a secret, new or not. `bytes_value` is base64."""

        def work(tx: Tx) -> None:
            self._find(tx, caller, name.scope, Permission.WRITE, to="write secrets of", locked=True)
            check_key(name.key)
            value = _value(string_value, bytes_value)
            of = name.folded
            if tx.secrets.get(of) is None and tx.secrets.count(of.scope) >= MAX_SECRETS:
                raise ResourceLimitExceeded(
                    f"Scope {name.scope} has {MAX_SECRETS} secrets, which is the maximum. Delete one first."
                )
            sealed = self._crypt(lambda: self._vault.seal(of, value, used=tx.secrets.key_ids()))
            tx.secrets.put(of, name=name.key, sealed=sealed, now=self._clock.now_ms())

        await self._store.write(work)

    async def get(self, caller: Caller, name: SecretName) -> tuple[str, bytes]:
        """The key as it was written, and the value."""

        def work(tx: Tx) -> tuple[str, bytes]:
            self._find(tx, caller, name.scope, Permission.READ, to="read secrets of")
            found = tx.secrets.get(name.folded)
            if found is None:
                raise _missing(name)
            return found[0], self._crypt(lambda: self._vault.open(name.folded, found[1]))

        return await self._store.read(work)

    async def delete(self, caller: Caller, name: SecretName) -> None:
        """Deletes a secret. Running clusters keep what they were started with."""

        def work(tx: Tx) -> None:
            self._find(tx, caller, name.scope, Permission.WRITE, to="delete secrets of", locked=True)
            if not tx.secrets.delete(name.folded):
                raise _missing(name)

        await self._store.write(work)

    async def list_secrets(self, caller: Caller, scope: str) -> list[SecretRow]:
        """The secrets of a scope, without their values."""

        def work(tx: Tx) -> list[SecretRow]:
            self._find(tx, caller, scope, Permission.READ, to="list the secrets of")
            return tx.secrets.of_scope(fold(scope))

        return await self._store.read(work)

    # -- permissions ---------------------------------------------------------------------------------------------------

    async def put_acl(self, caller: Caller, scope: str, grant: Grant) -> None:
        """Gives a user or a group a permission on the scope instead of the one that it had."""

        def work(tx: Tx) -> None:
            self._find(tx, caller, scope, Permission.MANAGE, to="change permissions on", locked=True)
            who = self._holder(tx, grant.principal)
            if who is None:
                raise InvalidParameterValue(
                    f"principal is {grant.principal[:140]!r}: no such user or group exists. Name a user, a service principal "
                    "(by its application id) or a group of the workspace."
                )
            others = [each for each in tx.grants.of(_place(scope)) if each.principal != who]
            if len(others) >= MAX_GRANTS:
                raise ResourceLimitExceeded(f"Scope {scope} has {MAX_GRANTS} permissions, which is the maximum. Grant to groups.")
            tx.grants.put(_place(scope), [*others, Grant(who, grant.permission)])

        await self._store.write(work)

    async def get_acl(self, caller: Caller, scope: str, principal: str) -> Grant:
        """The permission that was given to this user or group."""
        found = [grant for grant in await self.list_acls(caller, scope) if fold_name(grant.principal) == fold_name(principal)]
        if not found:
            raise _no_acl(scope, principal)
        return found[0]

    async def delete_acl(self, caller: Caller, scope: str, principal: str) -> None:
        """Takes back what was given to this user or group."""

        def work(tx: Tx) -> None:
            self._find(tx, caller, scope, Permission.MANAGE, to="change permissions on", locked=True)
            who, grants = self._holder(tx, principal), tx.grants.of(_place(scope))
            if who not in [grant.principal for grant in grants]:
                raise _no_acl(scope, principal)
            tx.grants.put(_place(scope), [grant for grant in grants if grant.principal != who])

        await self._store.write(work)

    async def list_acls(self, caller: Caller, scope: str) -> list[Grant]:
        """Everybody's permissions on the scope, under their names."""

        def work(tx: Tx) -> list[Grant]:
            self._find(tx, caller, scope, Permission.MANAGE, to="see permissions on")
            grants = tx.grants.of(_place(scope))
            names = named(tx, [grant.principal for grant in grants])
            return [Grant(names[each.principal].name, each.permission) for each in grants if each.principal in names]

        return await self._store.read(work)

    # -- the workspace's key -------------------------------------------------------------------------------------------

    async def rotate_key(self, caller: Caller) -> int:
        """Changes the workspace's key and returns how many secrets were encrypted anew. After a kill at any point all secrets can
        be read, and the next call does what is left."""

        def begin(tx: Tx) -> str:
            self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="change the key of secrets in the")
            tx.lock(_LOCK)
            return self._crypt(lambda: self._vault.begin_rotation(tx.secrets.key_ids()))

        # Every put after this one uses the new key: it reads the file under the same lock.
        current = await self._store.write(begin)
        done = 0
        while rewrapped := await self._store.write(lambda tx: self._rewrap(tx, current)):
            done += rewrapped
        await self._store.write(lambda tx: self._end_rotation(tx, current))
        return done

    def _rewrap(self, tx: Tx, current: str) -> int:
        tx.lock(_LOCK)
        rows = tx.secrets.not_under(current, limit=BATCH)
        for name, sealed in rows:
            again = self._crypt(lambda name=name, sealed=sealed: self._vault.rewrap(name, sealed))  # type: ignore[misc] # bound now
            if again.key_id != current:
                raise _overtaken()
            tx.secrets.set_key(name, again)
        return len(rows)

    def _end_rotation(self, tx: Tx, current: str) -> None:
        tx.lock(_LOCK)
        if self._crypt(self._vault.current) != current or tx.secrets.key_ids() - {current}:
            raise _overtaken()
        self._crypt(self._vault.end_rotation)

    async def trouble(self) -> str:
        """Why some secrets cannot be read by this server, "" if all can."""

        def work(tx: Tx) -> str:
            used = tx.secrets.key_ids()
            if not (why := self._vault.trouble(used)):
                return ""
            scopes = tx.secrets.scopes_under({key for key in used if self._vault.trouble({key})})
            more = f" and {len(scopes) - _SHOWN} more" if len(scopes) > _SHOWN else ""
            return f"{why} Scopes with such secrets: {', '.join(scopes[:_SHOWN])}{more}."

        return await self._store.read(work)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _find(self, tx: Tx, caller: Caller, scope: str, permission: Permission, *, to: str, locked: bool = False) -> None:
        """Finds the scope and authorises the caller. `locked`: no other writer changes it until the commit."""
        if locked:
            tx.lock(_LOCK)
        if tx.secrets.scope(fold(scope)) is None:
            raise ResourceDoesNotExist(f"Scope {scope[:140]} does not exist!")
        self._authorizer.require(tx, caller, permission, of_scope(scope), to=to)

    def _holder(self, tx: Tx, name: str) -> str | None:
        """Secret ACLs name users, service principals and groups alike."""
        return user_holder(tx, name) or group_holder(tx, name)

    def _crypt(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except VaultError as error:
            raise InvalidState(str(error)) from error


def _place(scope: str) -> Place:
    return Place(ObjectKind.SECRET_SCOPE, fold(scope))


def _value(string_value: str | None, bytes_value: str | None) -> bytes:
    """The bytes of a new secret. Raises an ApiError that does not repeat them."""
    if (string_value is None) == (bytes_value is None):
        raise MalformedRequest("Give exactly one of string_value and bytes_value.")
    if string_value is not None:
        value = string_value.encode()
    else:
        try:
            value = base64.b64decode(bytes_value or "", validate=True)
        except binascii.Error as error:
            raise InvalidParameterValue("bytes_value is not base64.") from error
    if len(value) > MAX_BYTES:
        raise InvalidParameterValue(f"The value has {len(value)} bytes; at most {MAX_BYTES} (128 KB) are allowed.")
    return value


def _missing(name: SecretName) -> ResourceDoesNotExist:
    return ResourceDoesNotExist(f"Secret does not exist with scope: {name.scope[:140]} and key: {name.key[:140]}")


def _no_acl(scope: str, principal: str) -> ResourceDoesNotExist:
    return ResourceDoesNotExist(f"Scope {scope} has no permission for {principal[:140]}.")


def _overtaken() -> InvalidState:
    return InvalidState("The key of secrets was changed by somebody else meanwhile. All secrets can be read. Repeat the command.")
