"""Looks through a message of Thrift's binary protocol before it is read: how many values it has, and how deep they lie. Pure.

An empty struct takes one byte of a message and half a kilobyte of memory, so the size of a message alone bounds nothing.
"""

from __future__ import annotations

import struct

from thrift.Thrift import TType

MAX_VALUES = 50_000
MAX_DEPTH = 32
_SIZES = {TType.BOOL: 1, TType.BYTE: 1, TType.DOUBLE: 8, TType.I16: 2, TType.I32: 4, TType.I64: 8}
_LENGTH = struct.Struct(">i")


class TooMany(Exception):
    """A message with more values than any client's; says how many there may be."""


def admit(body: bytes, at: int) -> int:
    """Where the struct ends that begins there. Raises TooMany, and ValueError for what is none."""
    walk = _Walk(body, at)
    walk.value(TType.STRUCT, MAX_DEPTH)
    return walk.at


class _Walk:
    def __init__(self, body: bytes, at: int) -> None:
        self._body, self.at, self._values = body, at, 0

    def value(self, kind: int, depth: int) -> None:
        """Steps over a value of that type."""
        self._count(1)
        if not depth:
            raise TooMany(f"The values of a request lie at most {MAX_DEPTH} deep.")
        if (size := _SIZES.get(kind)) is not None:
            self._step(size)
        elif kind == TType.STRING:
            self._step(self._length())
        elif kind == TType.STRUCT:
            while (field := self._byte()) != TType.STOP:
                self._step(2)
                self.value(field, depth - 1)
        elif kind in (TType.LIST, TType.SET):
            self._elements((self._byte(),), depth)
        elif kind == TType.MAP:
            self._elements((self._byte(), self._byte()), depth)
        else:
            raise ValueError(f"no type has the number {kind}")

    def _elements(self, kinds: tuple[int, ...], depth: int) -> None:
        number = self._length()
        self._count(number)  # before any of them is looked at
        for _ in range(number):
            for kind in kinds:
                self.value(kind, depth - 1)

    def _count(self, more: int) -> None:
        self._values += more
        if self._values > MAX_VALUES:
            raise TooMany(f"A request has at most {MAX_VALUES} values.")

    def _length(self) -> int:
        begin = self.at
        self._step(_LENGTH.size)
        (found,) = _LENGTH.unpack_from(self._body, begin)
        if found < 0:
            raise ValueError("a negative length")
        return int(found)

    def _byte(self) -> int:
        self._step(1)
        return self._body[self.at - 1]

    def _step(self, size: int) -> None:
        self.at += size
        if self.at > len(self._body):
            raise ValueError("a message that ends early")
