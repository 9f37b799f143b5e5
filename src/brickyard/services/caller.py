"""Who makes a request."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated user, and the token that proved it."""

    user_name: str
    user_id: str
    is_admin: bool
    token_id: str
