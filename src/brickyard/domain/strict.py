"""What strict requests and their answers share: the base of requests, what is wrong with one, and pages."""

from __future__ import annotations

from typing import Any

import msgspec


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of a request. Unknown fields are refused."""


class Pagination(msgspec.Struct, frozen=True, kw_only=True):
    page: int
    limit: int
    total: int
    total_pages: int


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a request; `requested` and `available` where there is something to choose from."""

    field: str
    reason: str
    requested: Any = None
    available: Any = None
