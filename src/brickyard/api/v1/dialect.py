"""The error envelope of the /v1/clusters API."""

from __future__ import annotations

import re
import time
from typing import Any

from brickyard.api.edge.dialects import TEXT, Dialect, Failure
from brickyard.domain.clock import rfc3339
from brickyard.domain.errors import DetailedError, EndpointNotFound, PermissionDenied

# Codes of the other API that have another name here.
_CODES = {
    "INVALID_PARAMETER_VALUE": "VALIDATION_ERROR",
    "MALFORMED_REQUEST": "VALIDATION_ERROR",
    "UNAUTHENTICATED": "UNAUTHORIZED",
    "PERMISSION_DENIED": "FORBIDDEN",
    "ENDPOINT_NOT_FOUND": "RESOURCE_NOT_FOUND",
    "RESOURCE_DOES_NOT_EXIST": "RESOURCE_NOT_FOUND",
    "INVALID_STATE": "STATE_CONFLICT",
    "REQUEST_LIMIT_EXCEEDED": "RATE_LIMIT_EXCEEDED",
}
_FIELD = re.compile(r"(?:field '(?P<quoted>[^']*)'|Missing required field: (?P<missing>\S+)|(?P<first>[a-z_.]+) (?:is|has) )")


def _body(failure: Failure) -> dict[str, Any]:
    error = failure.error
    return {
        "error": _CODES.get(error.error_code, error.error_code),
        "message": failure.message,
        "code": error.http_status,
        "details": _details(failure),
        "request_id": failure.request_id,
        "timestamp": rfc3339(time.time_ns() // 1_000_000),
    }


def _details(failure: Failure) -> dict[str, Any]:
    error = failure.error
    if isinstance(error, DetailedError):
        return error.details
    if isinstance(error, PermissionDenied):
        return {"required_permission": error.required, "current_permissions": list(error.held)}
    if isinstance(error, EndpointNotFound):
        return {"resource": "endpoint", "id": failure.message.partition("'")[2].removesuffix("'")}
    if error.http_status == 400:
        named = _FIELD.match(failure.message)
        field = next((each for each in named.groups() if each), "") if named is not None else ""
        return {"field": field, "reason": failure.message}
    return {}


V1 = Dialect(
    name="V1ClusterError",
    properties={
        "error": TEXT,
        "message": TEXT,
        "code": {"type": "integer"},
        "details": {"type": "object"},
        "request_id": TEXT,
        "timestamp": TEXT,
    },
    body=_body,
)
