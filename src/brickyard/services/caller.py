"""Who makes a request."""

from __future__ import annotations

from brickyard.domain.access import Principal


class Caller(Principal, frozen=True, kw_only=True):
    """An authenticated user, and the token that proved it."""

    token_id: str
