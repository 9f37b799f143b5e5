"""How an API puts its errors: one mapper, and a dialect for each group of operations.

What follows from an error alone is the same in all of them: status, Retry-After, how long its message may be. A dialect says what
the body looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from brickyard.domain.errors import RETRY_PHRASES, ApiError, ClusterNotReady

RETRY_AFTER_S = 1
MOST_TEXT = 3_000  # characters of a message: one that repeats what a client sent must not send all of it back
TEXT = {"type": "string"}
_RETRIED = (429, 503)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer in full, where JSON with status 200 will not do."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Failure(NamedTuple):
    """An error, its message as it may be shown, and the id of the request (which is also in the header X-Request-Id)."""

    error: ApiError
    message: str
    request_id: str


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """`body` is an error's, and `properties` what the OpenAPI document says of it under `name`; all of them are always there."""

    name: str
    properties: Mapping[str, Any]
    body: Callable[[Failure], Mapping[str, Any]]

    def reply(self, error: ApiError, request_id: str = "") -> Reply:
        """The answer that carries an error."""
        status, message = error.http_status, error.message
        if len(message) > MOST_TEXT:
            message = f"{message[:MOST_TEXT]}..."
        if status not in _RETRIED and not isinstance(error, ClusterNotReady):
            message = defused(message)
        body = msgspec.json.encode(self.body(Failure(error, message, request_id)))
        return Reply(status=status, body=body, headers=_headers(status))


def plain_body(failure: Failure) -> dict[str, Any]:
    """The Databricks API's shape, and what the server says beside any API."""
    return {"error_code": failure.error.error_code, "message": failure.message}


PLAIN = Dialect(name="Error", properties={"error_code": TEXT, "message": TEXT}, body=plain_body)


def defused(message: str) -> str:
    """The message without the phrases on which clients would retry a permanent error for minutes: a name that a client chose, and
    that we repeat, may hold one."""
    for phrase in RETRY_PHRASES:
        if phrase in message:
            message = message.replace(phrase, f"{phrase[0]}...{phrase[-1]}")
    return message


def _headers(status: int) -> tuple[tuple[str, str], ...]:
    if status in _RETRIED:
        return (("retry-after", str(RETRY_AFTER_S)),)
    if status == 401:
        return (("www-authenticate", 'Bearer realm="brickyard"'),)
    return ()
