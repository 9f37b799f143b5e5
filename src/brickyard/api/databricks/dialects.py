"""Error formats that Databricks clients expect, where they differ from the plain one."""

from __future__ import annotations

from typing import Any

from brickyard.api.edge.dialects import PLAIN, TEXT, Dialect, Failure, plain_body

_CALLER_ERROR = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "CM_API_ERROR_SOURCE_CALLER_ERROR",
    "domain": "",
}
_SCIM_TYPES = {400: "invalidValue", 401: "unauthenticated", 403: "forbidden", 404: "notFound", 409: "uniqueness"}
_SCIM_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"


def _clusters_body(failure: Failure) -> dict[str, Any]:
    body = plain_body(failure)
    return body | {"details": [_CALLER_ERROR]} if failure.error.http_status == 400 else body


def _scim_body(failure: Failure) -> dict[str, Any]:
    status = failure.error.http_status
    return {
        "schemas": [_SCIM_SCHEMA],
        # Clients print "<scimType> <detail>", and "None <detail>" where there is no type.
        "scimType": _SCIM_TYPES.get(status, "internalError" if status >= 500 else "invalidValue"),
        "detail": failure.message,
        "status": str(status),
    }


# The plain format, with the error details that the cluster manager adds to status 400.
CLUSTERS = Dialect(name=PLAIN.name, properties=PLAIN.properties, body=_clusters_body)
# API 1.2: contexts and commands.
COMMANDS = Dialect(name="CommandError", properties={"error": TEXT}, body=lambda failure: {"error": failure.message})
SCIM = Dialect(
    name="ScimError",
    properties={"schemas": {"type": "array", "items": TEXT}, "detail": TEXT, "status": TEXT},
    body=_scim_body,
)
