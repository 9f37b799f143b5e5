"""Decides how a file is put together from its parts, without I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from brickyard.domain.errors import InvalidParameterValue

MOST_PARTS = 10_000  # as in S3


class Part(NamedTuple):
    """A part that has arrived. `offset`: where it is in the data of its session; None: in a file of its own."""

    number: int
    size: int
    digest: bytes
    offset: int | None

    @property
    def etag(self) -> str:
        return f'"{self.digest.hex()}"'


class Named(NamedTuple):
    """A part as a client names it when it completes its upload. Without an `etag`, whatever has that number counts."""

    number: int
    etag: str = ""


class Assembly(NamedTuple):
    """Where the parts belong, in their order. `in_place`: those in the session's data are there already, so only the others have
    to be copied into it; else all of them, into a new file."""

    parts: tuple[tuple[Part, int], ...]
    size: int
    in_place: bool


def check_named(named: Sequence[Named]) -> None:
    """Raises InvalidParameterValue unless the numbers rise within their bounds."""
    if not named:
        raise InvalidParameterValue("Missing required field: parts. Name the parts that were sent. An empty file takes one PUT.")
    before = 0
    for index, each in enumerate(named):
        if not before < each.number <= MOST_PARTS:
            raise InvalidParameterValue(
                f"field 'parts[{index}].part_number': it is {each.number}, after {before}; the numbers must rise, from 1 to "
                f"{MOST_PARTS}."
            )
        before = each.number


def check_part(each: Named, part: Part | None) -> Part:
    """The part that is named. Raises InvalidParameterValue unless it has arrived with that content."""
    if part is None:
        raise InvalidParameterValue(f"Part {each.number} has not arrived. Send it, then complete the upload again.")
    if each.etag and each.etag.strip('"') != part.digest.hex():
        raise InvalidParameterValue(
            f"Part {each.number} has the ETag {part.etag}, not {each.etag[:100]!r}: its content was replaced. Send it again."
        )
    return part


def assembly(parts: Sequence[Part]) -> Assembly:
    """The plan for the parts of a file, in their order."""
    placed, at = [], 0
    for part in parts:
        placed.append((part, at))
        at += part.size
    return Assembly(tuple(placed), at, all(part.offset in (None, target) for part, target in placed))


def slot(number: int, size: int, slot_size: int) -> int | None:
    """Where in the data a part goes if all parts but the last have the size of the first, as clients send them; None for one that
    does not fit there."""
    return (number - 1) * slot_size if 0 < size <= slot_size else None


def fingerprint(named: Sequence[Named]) -> str:
    """The same for the same list: a repeated call completes the same upload."""
    return hashlib.blake2b(repr([(each.number, each.etag.strip('"')) for each in named]).encode(), digest_size=16).hexdigest()
