"""API errors: one class for each decision a client can take, with its error code and HTTP status.

Messages of permanent errors must not contain the phrases that make clients retry for minutes (`RETRY_PHRASES`);
a test checks every message that we can produce. Source of codes and statuses: databricks-sdk `errors/platform.py`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

RETRY_PHRASES = (
    "com.databricks.backend.manager.util.UnknownWorkerEnvironmentException",
    "does not have any associated worker environments",
    "There is no worker environment with id",
    "Unknown worker environment",
    "ClusterNotReadyException",
    "Unexpected error",
    "Please try again later or try a faster operation.",
    "RPC token bucket limit has been exceeded",
    "Timed out after ",
    "deadline exceeded",
    "REQUEST_LIMIT_EXCEEDED",
)

RETRY_AFTER_S = 1


class ApiError(Exception):
    """An unsuccessful answer: `error_code` is for programs, the message for people."""

    error_code = "INTERNAL_ERROR"
    http_status = 500
    error_info = ""  # for programs, finer than the code: google.rpc.ErrorInfo among the details
    retry_after_s = RETRY_AFTER_S  # of errors that clients retry
    user_name = ""  # whom a refused log-in is about, for the audit log

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidParameterValue(ApiError):
    error_code = "INVALID_PARAMETER_VALUE"
    http_status = 400


class MalformedRequest(ApiError):
    error_code = "MALFORMED_REQUEST"
    http_status = 400


class InvalidState(ApiError):
    error_code = "INVALID_STATE"
    http_status = 400


class Unauthenticated(ApiError):
    error_code = "UNAUTHENTICATED"
    http_status = 401


class PermissionDenied(ApiError):
    """`required` and `held` are permissions on the object; "" and none if it is no object's permission that is missing."""

    error_code = "PERMISSION_DENIED"
    http_status = 403

    def __init__(self, message: str, *, required: str = "", held: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.required = required
        self.held = tuple(held)


class ResourceDoesNotExist(ApiError):
    error_code = "RESOURCE_DOES_NOT_EXIST"
    http_status = 404


class CatalogDoesNotExist(ResourceDoesNotExist):
    """Of Unity Catalog's API, as are the next ones: clients tell them apart by code."""

    error_code = "CATALOG_DOES_NOT_EXIST"


class SchemaDoesNotExist(ResourceDoesNotExist):
    error_code = "SCHEMA_DOES_NOT_EXIST"


class EndpointNotFound(ApiError):
    error_code = "ENDPOINT_NOT_FOUND"
    http_status = 404


class ResourceAlreadyExists(ApiError):
    error_code = "RESOURCE_ALREADY_EXISTS"
    http_status = 400


class Aborted(ApiError):
    """Somebody else was faster: what the request builds on is no longer so."""

    error_code = "ABORTED"
    http_status = 409


class RequestTooLarge(ApiError):
    error_code = "MAX_REQUEST_SIZE_EXCEEDED"
    http_status = 413


class QuotaExceeded(ApiError):
    error_code = "QUOTA_EXCEEDED"
    http_status = 400


class ResourceLimitExceeded(ApiError):
    error_code = "RESOURCE_LIMIT_EXCEEDED"
    http_status = 400


class RequestLimitExceeded(ApiError):
    """Too many requests to serve in time. Clients wait (Retry-After) and retry."""

    error_code = "REQUEST_LIMIT_EXCEEDED"
    http_status = 429

    def __init__(self, message: str, *, retry_after_s: int = RETRY_AFTER_S) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TemporarilyUnavailable(ApiError):
    """Clients wait (Retry-After) and retry: use it only where a retry helps."""

    error_code = "TEMPORARILY_UNAVAILABLE"
    http_status = 503


class StorageFull(ApiError):
    """The disk is full. A retry does not help; freeing space does."""

    error_code = "RESOURCE_EXHAUSTED"
    http_status = 507


class OutcomeUnknown(ApiError):
    """Some or all of what was asked for may have been done: no client may repeat it by itself."""

    error_code = "UNKNOWN"
    http_status = 500


class DatabaseTrouble(ApiError):
    """The database is unavailable or full. `reason` is the database's own message. Log it only: it may name hosts and paths."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class DatabaseAway(TemporarilyUnavailable, DatabaseTrouble):
    def __init__(self, reason: str) -> None:
        super().__init__("The workspace's database is unavailable at the moment. Try again.", reason=reason)


class DatabaseUnsure(OutcomeUnknown, DatabaseTrouble):
    """The connection, or the disk, failed while it committed."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "The workspace's database failed during the commit, so this call may or may not have been done. Look before you "
            "repeat it.",
            reason=reason,
        )


class DatabaseFull(StorageFull, DatabaseTrouble):
    def __init__(self, reason: str) -> None:
        super().__init__(
            "The disk of the workspace's database is full, so nothing can be changed. Free space there; running clusters "
            "continue.",
            reason=reason,
        )


class DetailedError(ApiError):
    """An error of the /v1 API, with facts for programs."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


class ResourceNotFound(DetailedError):
    error_code = "RESOURCE_NOT_FOUND"
    http_status = 404


class StateConflict(DetailedError):
    error_code = "STATE_CONFLICT"
    http_status = 409


class SemanticError(DetailedError):
    """The request is well-formed and cannot be met. `details` lists every problem."""

    error_code = "SEMANTIC_ERROR"
    http_status = 422


class SnapshotFailed(DetailedError):
    """The cluster has stopped, but the snapshot that was asked for could not be taken."""

    error_code = "SNAPSHOT_FAILED"
    http_status = 500


class StartTimeout(DetailedError):
    """The start has not ended in the time that the client wanted to wait. It goes on."""

    error_code = "CLUSTER_START_TIMEOUT"
    http_status = 504


class StopTimeout(DetailedError):
    """Likewise for a stop."""

    error_code = "CLUSTER_STOP_TIMEOUT"
    http_status = 504


class StartFailed(DetailedError):
    """The client waited for a start, and it failed."""

    error_code = "CLUSTER_START_FAILED"
    http_status = 500


class CommandError(ApiError):
    """An error of the 1.2 command API: the body is `{"error": message}`, without an error code."""

    http_status = 400


class ClusterNotReady(CommandError):
    """Commands cannot run yet. Clients retry, because the message contains the exception's name."""

    http_status = 500

    def __init__(self, detail: str) -> None:
        super().__init__(f"ClusterNotReadyException: {detail}")


def is_full_disk(error: BaseException) -> bool:
    """Whether the error says that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
