"""Decoders of types, made once, when the module that needs one is imported.

msgspec describes a type when that is first used. Threads that do so at the same moment, for the same types, have crashed the
interpreter. At an import, one thread does it, and no call pays for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def converter(kind: type[T], *, strict: bool = True, from_attributes: bool = False) -> Callable[[Any], T]:
    """`msgspec.convert` to one type, which is described now. Call this while a module is imported."""
    describe(kind)
    return functools.partial(msgspec.convert, type=kind, strict=strict, from_attributes=from_attributes)


def describe(kind: Any) -> None:
    """Has msgspec describe a type, and those that it has inside. Call this while a module is imported."""
    msgspec.json.Decoder(kind)


class Decoders:
    """Of JSON of some types, for callers that name a type. Make it while a module is imported."""

    def __init__(self, *kinds: Any) -> None:
        self._of = {kind: msgspec.json.Decoder(kind).decode for kind in kinds}

    def decode(self, data: bytes, kind: type[T]) -> T:
        """An object of that type. Raises msgspec.DecodeError."""
        found: T = self._of[kind](data)
        return found
