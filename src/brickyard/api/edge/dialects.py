"""How an API reports errors: one mapper for all, and a dialect for each group of operations.

Status, Retry-After and the maximum length of the message depend on the error alone and are the same in all dialects. A dialect
defines the body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from brickyard.domain.errors import RETRY_PHRASES, ApiError, ClusterNotReady

MOST_TEXT = 3_000  # characters of a message: an error that quotes the client's input must not return all of it
JSON = "application/json"
TEXT = {"type": "string"}
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_RETRIED = (429, 503)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A complete answer, for anything other than JSON with status 200."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    made: msgspec.Struct | None = None  # the object that the answer shows, for the log and the audit log


class Failure(NamedTuple):
    """An error, its message as shown to the client, and the request id (also in the header X-Request-Id)."""

    error: ApiError
    message: str
    request_id: str


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """`body` builds an error's body. `properties` describe it in the OpenAPI document under `name`; all of them are required.
    `page` makes a web page of an error instead."""

    name: str
    properties: Mapping[str, Any]
    body: Callable[[Failure], Mapping[str, Any]]
    page: Callable[[Failure], Reply] | None = None

    def reply(self, error: ApiError, request_id: str = "") -> Reply:
        """The answer for an error."""
        status, message = error.http_status, error.message
        if len(message) > MOST_TEXT:
            message = f"{message[:MOST_TEXT]}..."
        if status not in _RETRIED and not isinstance(error, ClusterNotReady):
            message = defused(message)
        if self.page is not None:
            shown = self.page(Failure(error, message, request_id))
            return replace(shown, headers=(*shown.headers, *_headers(error)))
        body = msgspec.json.encode(self.body(Failure(error, message, request_id)))
        return Reply(status=status, body=body, headers=_headers(error))


def plain_body(failure: Failure) -> dict[str, Any]:
    """The Databricks API's format, also used outside of any API."""
    body: dict[str, Any] = {"error_code": failure.error.error_code, "message": failure.message}
    if failure.error.error_info:
        body["details"] = [{"@type": ERROR_INFO, "reason": failure.error.error_info, "domain": ""}]
    return body


PLAIN = Dialect(name="Error", properties={"error_code": TEXT, "message": TEXT}, body=plain_body)


def defused(message: str) -> str:
    """The message without phrases that would make clients retry a permanent error for minutes. Such a phrase can come from a
    client-chosen name that the message repeats."""
    for phrase in RETRY_PHRASES:
        if phrase in message:
            message = message.replace(phrase, f"{phrase[0]}...{phrase[-1]}")
    return message


def _headers(error: ApiError) -> tuple[tuple[str, str], ...]:
    if error.http_status in _RETRIED:
        return (("retry-after", str(error.retry_after_s)),)
    if error.http_status == 401:
        return (("www-authenticate", 'Bearer realm="brickyard"'),)
    return ()
