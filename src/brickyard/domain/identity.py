"""Callers: users and their tokens, as stored."""

from __future__ import annotations

import msgspec

NEVER = -1  # for `TokenRow.expiry_ms`


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """One personal access token. `digest` is the SHA-256 of the token in hex; the token itself is never stored."""

    token_id: str
    digest: str
    user_name: str
    comment: str
    created_ms: int
    expiry_ms: int  # NEVER, or epoch milliseconds

    def expired(self, now_ms: int) -> bool:
        """Whether the token is no longer valid."""
        return self.expiry_ms != NEVER and self.expiry_ms <= now_ms


class UserRow(msgspec.Struct, frozen=True, kw_only=True):
    """One user. `user_id` is the user's SCIM id, a decimal number."""

    user_name: str
    user_id: str
    is_admin: bool
    display_name: str
