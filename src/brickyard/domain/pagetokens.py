"""Page tokens: a position in a sort order, and the direction to read from it.

Opaque to clients. A token names its sort order, so that a token used with another order is refused instead of misread. It grants
nothing: a forged token shows only what the same call without it shows.
"""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec

from brickyard.domain.audit import AuditPosition
from brickyard.domain.decoding import Decoders
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.queries import ClusterOrder, ClusterPosition, ClusterSort, EventPosition, JobPosition, RunPosition
from brickyard.domain.statements import StatementPosition

_INT64 = 2**63
_INT32 = 2**31
T = TypeVar("T")


class ClusterCursor(msgspec.Struct, frozen=True, array_like=True):
    """The page after (or, if `backward`, before) a cluster."""

    by: ClusterOrder
    descending: bool
    backward: bool
    at: ClusterPosition


class EventCursor(msgspec.Struct, frozen=True, array_like=True):
    """The page after (or, if `backward`, before) an event."""

    descending: bool
    backward: bool
    at: EventPosition


class RunCursor(msgspec.Struct, frozen=True, array_like=True):
    """The page of runs after (or, if `backward`, before) a run."""

    backward: bool
    at: RunPosition


class JobCursor(msgspec.Struct, frozen=True, array_like=True):
    """The page of jobs after (or, if `backward`, before) a job."""

    backward: bool
    at: JobPosition


class NumberCursor(msgspec.Struct, frozen=True, array_like=True):
    """The page of a numbered list that begins with that number."""

    first: int


def encode(cursor: NumberCursor | JobCursor | ClusterCursor | EventCursor | RunCursor | AuditPosition | StatementPosition) -> str:
    """The cursor as URL-safe text for clients."""
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def cluster_cursor(token: str | None, sort: ClusterSort) -> ClusterCursor | None:
    """The token's cursor for lists in that order; None if there is no token. Raises InvalidParameterValue."""
    if not token:
        return None
    cursor = _decode(token, ClusterCursor)
    if (cursor.by, cursor.descending) != (sort.by, sort.descending):
        raise InvalidParameterValue(
            "page_token belongs to a list with another sort_by. Send the sort_by of its first page again."
        )
    value = cursor.at.value
    sound = isinstance(value, str) if sort.by is ClusterOrder.NAME else isinstance(value, int) and _fits(value)
    if not sound or "\0" in f"{value}{cursor.at.cluster_id}":
        raise _unknown()
    return cursor


def event_cursor(token: str | None, *, descending: bool) -> EventCursor | None:
    """The token's cursor for events in that order; None if there is no token. Raises InvalidParameterValue."""
    if not token:
        return None
    cursor = _decode(token, EventCursor)
    if cursor.descending is not descending:
        raise InvalidParameterValue("page_token belongs to a list with another order. Send the order of its first page again.")
    if not _fits(cursor.at.timestamp) or not _fits(cursor.at.seq):
        raise _unknown()
    return cursor


def run_cursor(token: str | None) -> RunCursor | None:
    """The token's cursor; None if there is no token. Raises InvalidParameterValue."""
    if not token:
        return None
    cursor = _decode(token, RunCursor)
    if not _fits(cursor.at.created_ms) or not _fits(cursor.at.run_id):
        raise _unknown()
    return cursor


def job_cursor(token: str | None) -> JobCursor | None:
    """The token's cursor; None if there is no token. Raises InvalidParameterValue."""
    if not token:
        return None
    cursor = _decode(token, JobCursor)
    if not _fits(cursor.at.created_ms) or not _fits(cursor.at.job_id):
        raise _unknown()
    return cursor


def first_of_page(token: str | None) -> int:
    """The number with which the token's page begins; 0 if there is no token. Raises InvalidParameterValue."""
    cursor = _decode(token, NumberCursor) if token else NumberCursor(0)
    if not 0 <= cursor.first < _INT32:
        raise _unknown()
    return cursor.first


def audit_position(token: str) -> AuditPosition | None:
    """The token's position; None if there is no token. Raises InvalidParameterValue."""
    if not token:
        return None
    position = _decode(token, AuditPosition)
    if not _fits(position.time) or not _fits(position.id):
        raise _unknown()
    return position


def statement_position(token: str | None) -> StatementPosition | None:
    """The token's position; None if there is no token. Raises InvalidParameterValue."""
    if not token:
        return None
    position = _decode(token, StatementPosition)
    if not _fits(position.started_ms) or "\0" in position.statement_id:
        raise _unknown()
    return position


_TOKENS = Decoders(NumberCursor, JobCursor, ClusterCursor, EventCursor, RunCursor, AuditPosition, StatementPosition)


def _decode(token: str, kind: type[T]) -> T:
    try:
        return _TOKENS.decode(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True), kind)
    except (ValueError, binascii.Error, msgspec.DecodeError, RecursionError) as error:
        raise _unknown() from error


def _fits(value: int) -> bool:
    return -_INT64 <= value < _INT64


def _unknown() -> InvalidParameterValue:
    return InvalidParameterValue("page_token is not valid. Omit it to get the first page.")
