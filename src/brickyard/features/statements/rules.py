"""What the Statement Execution API accepts, and how results are cut into chunks. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.statements.model import ChunkInfo, Disposition, ExecuteStatement, Format, Manifest, Parameter

MAX_STATEMENT = 16 << 20  # bytes
MAX_INLINE = 25 << 20  # bytes
MAX_ROWS = 1 << 53
MAX_PARAMETERS = 256
CHUNK_BYTES = 16 << 20  # a chunk ends with the part of a result that makes it that large
KEPT_MS = 3_600_000  # how long a result is kept after the end of its statement
LINK_MS = 15 * 60_000  # how long an external link counts
BEAT_MS = 5_000  # how often a server says that a statement still runs
LOST_MS = 45_000  # and after how long of silence that server has ended
LOST = "The server that ran this statement has ended. It may have run in part. It is not run again."
_WAIT = re.compile(r"(\d{1,3})s")


def check(request: ExecuteStatement) -> int:
    """How many seconds the call waits. Raises InvalidParameterValue."""
    if not request.statement.strip():
        raise InvalidParameterValue("statement is empty.")
    if (size := len(request.statement.encode())) > MAX_STATEMENT:
        raise InvalidParameterValue(f"statement has {size} bytes; at most {MAX_STATEMENT} are allowed.")
    if request.disposition is Disposition.INLINE and request.format is not Format.JSON_ARRAY:
        raise InvalidParameterValue(
            f"format {request.format.value} is not supported with disposition INLINE. Use EXTERNAL_LINKS, or JSON_ARRAY."
        )
    for name in ("row_limit", "byte_limit"):
        limit = getattr(request, name)
        if limit is not None and not 0 < limit <= MAX_ROWS:
            raise InvalidParameterValue(f"{name} is {limit}; it must be positive.")
    if request.row_limit is not None and request.row_limit >= 1 << 31:
        raise InvalidParameterValue(f"row_limit is {request.row_limit}; at most {(1 << 31) - 1} are allowed.")
    _check_parameters(request.parameters or ())
    return _wait_s(request.wait_timeout)


def _check_parameters(parameters: Sequence[Parameter]) -> None:
    if len(parameters) > MAX_PARAMETERS:
        raise InvalidParameterValue(f"parameters has {len(parameters)} entries; at most {MAX_PARAMETERS} are allowed.")
    names = [each.name for each in parameters]
    for name in names:
        if not name or names.count(name) > 1:
            raise InvalidParameterValue(f"parameters: name {name[:100]!r} must be set, and used once.")


def _wait_s(text: str) -> int:
    match = _WAIT.fullmatch(text.strip())
    seconds = int(match[1]) if match else -1
    if seconds != 0 and not 5 <= seconds <= 50:
        raise InvalidParameterValue(f"wait_timeout is {text[:20]!r}; it must be 0s, or between 5s and 50s.")
    return seconds


def after(manifest: Manifest, index: int) -> int | None:
    """The chunk after this one; None if it is the last."""
    return index + 1 if index + 1 < manifest.total_chunk_count else None


def chunk_of(manifest: Manifest, index: int) -> ChunkInfo:
    """Raises InvalidParameterValue."""
    if not 0 <= index < manifest.total_chunk_count:
        raise InvalidParameterValue(f"chunk_index is {index}; the result has {manifest.total_chunk_count} chunks.")
    return manifest.chunks[index]


def as_csv(rows: Sequence[Sequence[str | None]], header: Sequence[str] = ()) -> bytes:
    """RFC 4180, with "null" for NULL. The first chunk of a result has a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    if header:
        writer.writerow(header)
    writer.writerows([["null" if value is None else value for value in row] for row in rows])
    return text.getvalue().encode()
