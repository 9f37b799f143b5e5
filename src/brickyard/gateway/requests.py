"""Reads the few fields of a Spark Connect request that identify its sender. Pure.

It parses the raw bytes without Spark's protocol definitions: only the field numbers are known, and anything unknown is ignored.
It validates nothing, since the driver does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

MAX_TEXT = 200  # characters
_SERVICE = "/spark.connect.SparkConnectService/"
_SESSION_ID, _USER_CONTEXT, _USER_ID = 1, 2, 1
_CLIENT_TYPE = {_SERVICE + "ExecutePlan": 4, _SERVICE + "AnalyzePlan": 3, _SERVICE + "Config": 4}
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


class Sender(NamedTuple):
    """`user` is the name that the client gives, `client_type` its program; both may be empty."""

    session_id: str
    user: str
    client_type: str


def sender(method: str, request: bytes) -> Sender | None:
    """The sender, or None if the method's requests do not identify one or the bytes are not a request."""
    number = _CLIENT_TYPE.get(method)
    if number is None:
        return None
    found: dict[int, memoryview] = {}
    for field, value in _fields(memoryview(request)):
        if field in (_SESSION_ID, _USER_CONTEXT, number):
            found[field] = value
            if len(found) == 3:
                break
    context = dict(_fields(found.get(_USER_CONTEXT, memoryview(b""))))
    session_id = _text(found.get(_SESSION_ID))
    return Sender(session_id, _text(context.get(_USER_ID)), _text(found.get(number))) if session_id else None


def _text(value: memoryview | None) -> str:
    return bytes(value[: 4 * MAX_TEXT]).decode("utf-8", "replace")[:MAX_TEXT] if value is not None else ""


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the fields that have a length (protobuf's wire format); stops at the first invalid one."""
    at = 0
    while at < len(message):
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
            yield tag >> 3, message[at : at + size]
            at += size
        else:
            return


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number and the position after it, or the message's end if the number is incomplete."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return 0, len(message)
