"""A credential ends with what it came from: a session with the token that was entered, an access token with its client secret."""

from __future__ import annotations

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
