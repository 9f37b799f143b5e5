"""Arrow's streams as Spark Connect sends them, cut into the pieces that Databricks' SQL protocol sends. Pure.

A batch of Spark Connect is a whole stream: a schema, record batches, an end. The SQL protocol sends the schema once, with the
result's metadata, and then messages without it. A message is a marker, the size of its header, the header (a flatbuffer), and a
body whose size the header says [Apache Arrow, "Encapsulated message format"].
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_MARKER = b"\xff\xff\xff\xff"
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of a stream
_BODY_LENGTH = 3  # which field of the table Message


class Cut(NamedTuple):
    """The schema's message, and the messages after it, without the end of the stream."""

    schema: bytes
    batches: memoryview


def cut(stream: bytes) -> Cut:
    """Cuts a stream after its schema. Raises ValueError if it is none."""
    view = memoryview(stream)
    ends = list(_ends(view))
    if not ends:
        raise ValueError("an Arrow stream without a schema")
    return Cut(bytes(view[: ends[0]]), view[ends[0] : ends[-1]])


def _ends(view: memoryview) -> Iterator[int]:
    """The position after each message."""
    at = 0
    while at + 8 <= len(view) and view[at : at + 4] == _MARKER:
        (size,) = struct.unpack_from("<i", view, at + 4)
        if size == 0:
            return
        header = view[at + 8 : at + 8 + size]
        at += 8 + size + _body_length(header)
        if at > len(view):
            raise ValueError("an Arrow stream that ends within a message")
        yield at


def _body_length(header: memoryview) -> int:
    """The field of the flatbuffer: a table begins with the distance back to the offsets of its fields."""
    (table,) = struct.unpack_from("<I", header, 0)
    (back,) = struct.unpack_from("<i", header, table)
    fields = table - back
    (size,) = struct.unpack_from("<H", header, fields)
    place = 4 + 2 * _BODY_LENGTH
    if place >= size:
        return 0
    (offset,) = struct.unpack_from("<H", header, fields + place)
    return 0 if offset == 0 else int(struct.unpack_from("<q", header, table + offset)[0])
