"""One mapper from errors to answers."""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.api.edge.registry import ErrorStyle, Reply
from brickyard.domain.errors import RETRY_PHRASES, ApiError, ClusterNotReady

RETRY_AFTER_S = 1
MOST_TEXT = 3_000  # characters of a message: one that repeats what a client sent must not send all of it back
_RETRIED = (429, 503)
_CALLER_ERROR = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "CM_API_ERROR_SOURCE_CALLER_ERROR",
    "domain": "",
}
_SCIM_TYPES = {400: "invalidValue", 401: "unauthenticated", 403: "forbidden", 404: "notFound", 409: "uniqueness"}
_SCIM_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"


def error_reply(error: ApiError, style: ErrorStyle) -> Reply:
    """The answer that carries an error, in the shape that clients of the operation read."""
    status, message = error.http_status, error.message
    if len(message) > MOST_TEXT:
        message = f"{message[:MOST_TEXT]}..."
    if status not in _RETRIED and not isinstance(error, ClusterNotReady):
        message = defused(message)
    body: dict[str, Any]
    if style is ErrorStyle.COMMANDS:
        body = {"error": message}
    elif style is ErrorStyle.SCIM:
        # Clients print "<scimType> <detail>", and "None <detail>" where there is no type.
        body = {
            "schemas": [_SCIM_SCHEMA],
            "scimType": _SCIM_TYPES.get(status, "internalError" if status >= 500 else "invalidValue"),
            "detail": message,
            "status": str(status),
        }
    else:
        body = {"error_code": error.error_code, "message": message}
        if style is ErrorStyle.CLUSTERS and status == 400:
            body["details"] = [_CALLER_ERROR]
    return Reply(status=status, body=msgspec.json.encode(body), headers=_headers(status))


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
