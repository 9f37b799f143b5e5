"""Pages of lists that are newest first, with tokens for the next and the previous page; and pages of the arrays of one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from brickyard.domain.errors import InvalidParameterValue

T = TypeVar("T")
Position = TypeVar("Position")
Position_co = TypeVar("Position_co", covariant=True)
MAX_OFFSET = 100_000
ARRAY_PAGE = 100  # elements of each array of a job or a run, as at Databricks


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The items of a page, newest first, and the tokens of its neighbours."""

    items: list[T]
    has_more: bool
    next_page_token: str | None
    prev_page_token: str | None


class Cursor(Protocol[Position_co]):
    """What a page token says (`domain.pagetokens`): the page after (or, if `backward`, before) a position."""

    @property
    def backward(self) -> bool: ...

    @property
    def at(self) -> Position_co: ...


class Asked(msgspec.Struct, Generic[Position], frozen=True, kw_only=True):
    """Which page of a list a request asks for: `size` items after the cursor, or after skipping `offset` of them."""

    size: int
    offset: int
    cursor: Any = None  # Cursor[Position] | None

    @property
    def backward(self) -> bool:
        """Whether the rows are read oldest first."""
        return self.cursor is not None and self.cursor.backward

    @property
    def after(self) -> Position | None:
        """Where reading begins."""
        return self.cursor.at if self.cursor is not None else None

    @property
    def rows(self) -> int:
        """How many rows to read: one more than the page has, which tells whether there are more."""
        return self.size + 1

    def cut(self, rows: Sequence[T], token: Callable[[T, bool], str]) -> Page[T]:
        """The page of the rows that were read. A request with a token comes from the adjacent page, so that page exists. `token`:
        that of the page after (or, if true, before) an item."""
        more, items = len(rows) > self.size, list(rows[: self.size])
        if self.backward:
            items.reverse()
        following, before = more or self.backward, more if self.backward else self.cursor is not None
        return Page(
            items=items,
            has_more=following,
            next_page_token=token(items[-1], False) if following and items else None,
            prev_page_token=token(items[0], True) if before and items else None,
        )


def asked_page(
    limit: int | None, offset: int | None, cursor: Cursor[Position] | None, *, default: int, most: int, least: int = 1
) -> Asked[Position]:
    """The page that a request asks for. Raises InvalidParameterValue for a limit or an offset out of bounds."""
    if limit is not None and not least <= limit <= most:
        raise InvalidParameterValue(f"limit is {limit}; it must be between {least} and {most}.")
    if not 0 <= (offset or 0) <= MAX_OFFSET:
        raise InvalidParameterValue(f"offset is {offset}; it must be between 0 and {MAX_OFFSET}.")
    return Asked(size=limit or default, offset=offset or 0, cursor=cursor)


def slices(arrays: Sequence[Sequence[Any] | None], first: int = 0) -> tuple[list[list[Any] | None], int]:
    """The part of each array that is on the page beginning with that number, None if it is empty; and the number with which the
    next page begins, 0 if there is none."""
    end = first + ARRAY_PAGE
    return [list(each[first:end]) or None if each else None for each in arrays], end if any(
        len(each or ()) > end for each in arrays
    ) else 0
