"""Error formats that Databricks clients expect, where they differ from the plain one."""

from __future__ import annotations

from typing import Any

from brickyard.api.edge.dialects import ERROR_INFO, PLAIN, TEXT, Dialect, Failure, plain_body

_CALLER_ERROR = {"@type": ERROR_INFO, "reason": "CM_API_ERROR_SOURCE_CALLER_ERROR", "domain": ""}
_SCIM_TYPES = {400: "invalidValue", 401: "unauthenticated", 403: "forbidden", 404: "notFound"}
_CONFLICT = 409
_SCIM_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"


def _clusters_body(failure: Failure) -> dict[str, Any]:
    body = plain_body(failure)
    return body | {"details": [_CALLER_ERROR]} if failure.error.http_status == 400 else body


def _scim_body(failure: Failure) -> dict[str, Any]:
    status = failure.error.http_status
    kind = getattr(failure.error, "scim_type", "") or _SCIM_TYPES.get(status, _other_type(status))
    return {
        "schemas": [_SCIM_SCHEMA],
        # Clients print "<scimType> <detail>", and "None <detail>" where there is no type. Of a duplicate, Terraform compares the
        # whole message with Databricks', which has no type.
        "scimType": "" if status == _CONFLICT else kind,
        "detail": failure.message,
        "status": str(status),
    }


def _oauth_body(failure: Failure) -> dict[str, Any]:
    """RFC 6749, 5.2. Errors that do not come from OAuth get the code that fits their status."""
    code, status = failure.error.error_code, failure.error.http_status
    if not code.islower():
        code = "invalid_request" if status < 429 else "temporarily_unavailable" if status in (429, 503) else "server_error"
    return {"error": code, "error_description": failure.message}


def _other_type(status: int) -> str:
    return "internalError" if status >= 500 else "invalidValue"


# The plain format, with the error details that the cluster manager adds to status 400.
CLUSTERS = Dialect(name=PLAIN.name, properties=PLAIN.properties, body=_clusters_body)
# API 1.2: contexts and commands.
COMMANDS = Dialect(name="CommandError", properties={"error": TEXT}, body=lambda failure: {"error": failure.message})
OAUTH = Dialect(name="OAuthError", properties={"error": TEXT, "error_description": TEXT}, body=_oauth_body)
SCIM = Dialect(
    name="ScimError", properties={"schemas": {"type": "array", "items": TEXT}, "detail": TEXT, "status": TEXT}, body=_scim_body
)
