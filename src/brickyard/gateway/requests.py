"""Reads the few fields of a Spark Connect request that identify its sender and its operation. Pure.

It parses the raw bytes without Spark's protocol definitions: only the field numbers are known, and anything unknown is ignored.
It checks how many fields there are; the driver validates the rest, and whatever that accepts is read here as there: of a repeated
field the last one counts, and messages are merged [protobuf, encoding].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from brickyard.domain.errors import InvalidParameterValue

MAX_TEXT = 200  # characters
MAX_FIELDS = 10_000  # of one request: clients send a dozen, and each costs the server some microseconds
_SERVICE = "/spark.connect.SparkConnectService/"
_SESSION_ID, _USER_CONTEXT, _USER_ID = 1, 2, 1
RELEASE = _SERVICE + "ReleaseSession"
INTERRUPT = _SERVICE + "Interrupt"
# Calls about what runs already: they begin nothing.
FINISHING = frozenset(
    _SERVICE + name for name in ("ReattachExecute", "ReleaseExecute", "Interrupt", "FetchErrorDetails", "ReleaseSession")
)
_OPERATION_ID = {_SERVICE + "ExecutePlan": 6, _SERVICE + "ReattachExecute": 3}
_TYPE, _ALL, _ONE, _INTERRUPTED_ID = 4, 1, 3, 6  # of InterruptRequest: interrupt_type with two of its values, operation_id
_CLIENT_TYPE = {_SERVICE + "ExecutePlan": 4, _SERVICE + "AnalyzePlan": 3, _SERVICE + "Config": 4, RELEASE: 3}
_VARINT, _EIGHT_BYTES, _BYTES, _GROUP, _GROUP_END, _FOUR_BYTES = 0, 1, 2, 3, 4, 5


class Sender(NamedTuple):
    """`user` is the name that the client gives, `client_type` its program; both may be empty."""

    session_id: str
    user: str
    client_type: str


def sender(method: str, request: bytes) -> Sender | None:
    """The sender, or None if the method's requests do not identify one or the bytes are not a request. Raises
    InvalidParameterValue."""
    number = _CLIENT_TYPE.get(method)
    if number is None:
        return None
    found, user = _whose(request, number)
    session_id = _text(found.get(_SESSION_ID))
    return Sender(session_id, _text(user), _text(found.get(number))) if session_id else None


def interruption(method: str, request: bytes) -> bytes | None:
    """The request that interrupts the operation of a call, or all of its session if the client has not named the operation. None
    if the method has no operation or the bytes are not a request. Raises InvalidParameterValue."""
    number = _OPERATION_ID.get(method)
    if number is None:
        return None
    found, user = _whose(request, number)
    ids = (found.get(_SESSION_ID, memoryview(b"")), user, found.get(number, memoryview(b"")))
    if not ids[0] or max(map(len, ids)) > 4 * MAX_TEXT:
        return None
    whose = _field(_SESSION_ID, found[_SESSION_ID]) + _field(_USER_CONTEXT, _field(_USER_ID, user))
    if number not in found:
        return whose + bytes((_TYPE << 3 | _VARINT, _ALL))
    return whose + bytes((_TYPE << 3 | _VARINT, _ONE)) + _field(_INTERRUPTED_ID, found[number])


def _whose(request: bytes, number: int) -> tuple[dict[int, memoryview], memoryview]:
    """The session's id and the field of that number, if they are there, and the name of the user."""
    found: dict[int, memoryview] = {}
    contexts, budget = [], iter(range(MAX_FIELDS))
    for field, value in _fields(memoryview(request), budget):
        if field == _USER_CONTEXT:
            contexts.append(value)
        elif field in (_SESSION_ID, number):
            found[field] = value
    user = [value for context in contexts for field, value in _fields(context, budget) if field == _USER_ID]
    return found, user[-1] if user else memoryview(b"")


def _field(number: int, value: bytes | memoryview) -> bytes:
    """A field that has a length, as `_fields` reads it."""
    size, left = b"", len(value)
    while left > 0x7F:
        size, left = size + bytes((left & 0x7F | 0x80,)), left >> 7
    return bytes((number << 3 | _BYTES,)) + size + bytes((left,)) + bytes(value)


def _text(value: memoryview | None) -> str:
    return bytes(value[: 4 * MAX_TEXT]).decode("utf-8", "replace")[:MAX_TEXT] if value is not None else ""


def _fields(message: memoryview, budget: Iterator[int]) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the fields that have a length (protobuf's wire format); stops at the first invalid one. Those in
    groups, which are unknown to Spark, are left out. Each field takes one from the budget; raises InvalidParameterValue once it
    is empty."""
    at = depth = 0
    while at < len(message):
        if next(budget, None) is None:
            raise InvalidParameterValue(f"The request has more than {MAX_FIELDS:,} fields.")
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        elif kind == _BYTES:
            size, at = _varint(message, at)
            if at + size > len(message):
                return
            if depth == 0:
                yield tag >> 3, message[at : at + size]
            at += size
        elif kind in (_GROUP, _GROUP_END):
            depth += 1 if kind == _GROUP else -1
        else:
            return


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number and the position after it, or the message's end if the number is incomplete. Tags and sizes are numbers of 32
    bits: what is beyond is dropped, as in Java."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, at
    return 0, len(message)
