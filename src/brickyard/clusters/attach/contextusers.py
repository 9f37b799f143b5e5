"""Whose an execution context is that asks a server for something: the tickets that its agent sends say so."""

from __future__ import annotations

from brickyard.access.principals import active_principal, caller_of
from brickyard.domain.caller import Caller
from brickyard.domain.errors import PermissionDenied
from brickyard.domain.node import OfContextUser
from brickyard.nodes.tokens import InstanceTokens
from brickyard.store.store import Store


async def context_caller(store: Store, tokens: InstanceTokens, asked: OfContextUser) -> Caller:
    """The context's user, as they are now. Raises PermissionDenied."""
    if not tokens.is_ticket(asked.ticket, asked.instance_id, asked.context_id, asked.user):
        raise PermissionDenied(f"Context {asked.context_id} on this node is not a context of {asked.user}.")
    principal = await store.read(lambda tx: active_principal(tx, asked.user))
    if principal is None:
        raise PermissionDenied(f"{asked.user} is no active user of the workspace.")
    return caller_of(principal, token_id="")
