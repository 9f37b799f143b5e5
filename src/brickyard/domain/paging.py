"""Pages of lists that are newest first, with tokens for the next and the previous page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from brickyard.domain.errors import InvalidParameterValue

T = TypeVar("T")
MAX_OFFSET = 100_000


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The items of a page, newest first, and the tokens of its neighbours."""

    items: list[T]
    has_more: bool
    next_page_token: str | None
    prev_page_token: str | None


def page_of(rows: Sequence[T], size: int, *, backward: bool, first: bool, token: Callable[[T, bool], str]) -> Page[T]:
    """The page of `rows`, which are one more than fit if there are more in the direction of reading: oldest first if `backward`.
    `first`: the request had no token; one with a token comes from the adjacent page, so that page exists. `token`: that of the
    page after (or, if true, before) an item."""
    more, items = len(rows) > size, list(rows[:size])
    if backward:
        items.reverse()
    following, before = more or backward, more if backward else not first
    return Page(
        items=items,
        has_more=following,
        next_page_token=token(items[-1], False) if following and items else None,
        prev_page_token=token(items[0], True) if before and items else None,
    )


def within(name: str, asked: int | None, default: int, most: int, *, refused_beyond: int | None = None) -> int:
    """A number that a request may give. Beyond `most` it counts as that, up to `refused_beyond`."""
    if not 0 <= (asked or 0) <= (most if refused_beyond is None else refused_beyond):
        raise InvalidParameterValue(f"{name} is {asked}; it must be between 0 and {most}.")
    return min(asked or default, most)
