"""Files as answers: whole or in part, as a stream."""

from __future__ import annotations

import re
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.streaming import Stream
from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.files.errors import PreconditionFailed, RangeNotSatisfiable
from brickyard.features.files.tree import OpenFile

OCTETS: Final = "application/octet-stream"
HEADERS: Final = {"range": "range", "if-unmodified-since": "if_unmodified_since", "if-range": "if_range"}
ANNOUNCED: Final = {"content-length": "content_length", "user-agent": "user_agent"}
NO_CONTENT: Final = Reply(status=204, body=b"")


# These repeat an upload that failed with what is left of its stream: nothing. Later ones begin again.
_READ_BEFORE = re.compile(r"\bdatabricks-sdk-py/0\.(?:\d|[12]\d|3[0-6])\.")


def announces_content(content_length: str, user_agent: str) -> bool:
    """Whether an upload says that it has content. In chunks, of which there may be none, only from clients whose stream may have
    been read before."""
    return bool(content_length.strip("0")) if content_length else _READ_BEFORE.search(user_agent) is not None


def download(file: OpenFile, *, range: str = "", if_unmodified_since: str = "", if_range: str = "") -> Stream:
    """The file as an answer, which closes it. With `if_range`, all of it is sent unless that is its Last-Modified.
    Raises ApiError, with the file closed."""
    modified_s = file.entry.modified_ms // 1000
    if if_range and if_range != formatdate(modified_s, usegmt=True):
        range = ""
    try:
        _check_unmodified(modified_s, if_unmodified_since)
        start, end = part(range, file.entry.size)
    except BaseException:
        file.close()
        raise
    partial = (start, end) != (0, file.entry.size)
    headers = [
        ("content-length", str(end - start)),
        ("last-modified", formatdate(modified_s, usegmt=True)),
        ("accept-ranges", "bytes"),
    ]
    if partial:
        headers.append(("content-range", f"bytes {start}-{end - 1}/{file.entry.size}"))
    return Stream(
        pieces=file.pieces(start, end - start), source=file, content_type=OCTETS, headers=tuple(headers),
        status=206 if partial else 200,
    )  # fmt: skip


def part(range: str, size: int) -> tuple[int, int]:
    """Start and end of the part of a file that a Range header asks for. What is not one range of bytes is ignored, as HTTP says.
    Raises RangeNotSatisfiable."""
    unit, _, wanted = range.replace(" ", "").partition("=")
    first, dash, last = wanted.partition("-")
    numbers = all(not text or (text.isascii() and text.isdigit() and len(text) < 20) for text in (first, last))
    if unit.lower() != "bytes" or not dash or not numbers or not (first or last) or (first and last and int(last) < int(first)):
        return 0, size
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if start >= end:
        raise RangeNotSatisfiable(f"The file has {size} bytes; the range {range[:100]!r} begins after its end.")
    return start, end


def _check_unmodified(modified_s: int, date: str) -> None:
    if not date:
        return
    try:
        since = parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidParameterValue(f"If-Unmodified-Since is {date[:100]!r}; it must be a date as in Last-Modified.") from error
    if modified_s > since:
        raise PreconditionFailed("The file was changed after the time of If-Unmodified-Since. Read it again from its beginning.")
