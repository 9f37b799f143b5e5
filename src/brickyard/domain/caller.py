"""The user who makes a request."""

from __future__ import annotations

from brickyard.domain.access import Principal


class Caller(Principal, frozen=True, kw_only=True):
    """An authenticated user, with the token used to authenticate."""

    token_id: str
