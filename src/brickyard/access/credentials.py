"""Which credentials count, and how they end.

A credential ends with what it came from: a session with the token that was entered, an access token with its client secret.
"""

from __future__ import annotations

from brickyard.access import conf
from brickyard.access.objects import TOKENS
from brickyard.access.principals import active_principal, caller_of, principal_of
from brickyard.domain.access import Principal
from brickyard.domain.caller import Caller
from brickyard.domain.identity import ADMIN_TOKEN_ID, USERS_ID, CredentialKind, TokenRow
from brickyard.plan.access import level
from brickyard.store.identity import LOCK
from brickyard.store.tx import Tx


def hold(tx: Tx, token_id: str) -> bool:
    """Whether a credential exists, and will until the commit, as will its user. Whoever makes something from it asks here first,
    so that nothing new comes from what has just been revoked, or belongs to a user who has just been deleted."""
    tx.lock(LOCK, shared=True)
    tx.lock(f"credential {token_id}")
    return tx.tokens.get(token_id) is not None


def end(tx: Tx, token_id: str) -> None:
    """Revokes a credential, and everything that came from it."""
    tx.lock(f"credential {token_id}")
    tx.tokens.delete(token_id)


def renewed(tx: Tx, caller: Caller, *, now_ms: int, made_by_ms: int) -> Caller | None:
    """The caller with current rights; None if the identity is not active or the token no longer exists. A token with the same
    name made after `made_by_ms` is a different one: the administrator's token keeps its name when it is replaced."""
    row = tx.tokens.get(caller.token_id)
    if row is None or row.user_name != caller.user_name or row.created_ms > made_by_ms or row.expired(now_ms):
        return None
    principal = active_principal(tx, caller.user_name)
    return None if principal is None or not counts(tx, row, principal) else caller_of(principal, token_id=caller.token_id)


def counts(tx: Tx, row: TokenRow, principal: Principal) -> bool:
    """Whether a credential of the principal counts now: a personal access token, and a session that began with one, only while
    there are such tokens in the workspace and the principal may use them. The workspace's admin token always counts: with it,
    a workspace that has locked everybody out is mended.

    Race: a session begins while what it came from ends by something further back, which it has not locked. It does not count.
    """
    first = row
    while first.parent:
        before = tx.tokens.get(first.parent)
        if before is None and first.kind is CredentialKind.SESSION:
            return False
        if before is None:  # the code of an OAuth log-in, which is removed long before its tokens
            return True
        first = before
    if first.kind is not CredentialKind.PERSONAL or first.token_id == ADMIN_TOKEN_ID:
        return True
    return conf.has_tokens(tx) and usable_by(tx, principal)


def usable_by(tx: Tx, principal: Principal) -> bool:
    """Whether the principal may have personal access tokens."""
    return principal.is_admin or level(principal, TOKENS, tx.grants.of(TOKENS.places[0])) > 0


def end_unusable(tx: Tx) -> None:
    """Revokes the personal access tokens of all who may no longer have any, as Databricks does."""
    if USERS_ID in {grant.principal for grant in tx.grants.of(TOKENS.places[0])}:
        return  # everybody may
    for name in sorted({row.user_name for row in tx.tokens.all()}):
        user = tx.users.get(name)
        if user is not None and not usable_by(tx, principal_of(tx, user)):
            for row in tx.tokens.of_user(name):
                end(tx, row.token_id)
