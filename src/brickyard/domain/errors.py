"""Errors of the API: one class per decision a client takes, with the code and status that carry it.

Messages of permanent errors must hold none of the phrases on which clients retry for minutes (`RETRY_PHRASES`);
a test walks every message that we can produce. Source of codes and statuses: databricks-sdk `errors/platform.py`.
"""

from __future__ import annotations

import errno

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


class ApiError(Exception):
    """An answer that is not a success: `error_code` for programs, the message for people."""

    error_code = "INTERNAL_ERROR"
    http_status = 500

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
    error_code = "PERMISSION_DENIED"
    http_status = 403


class ResourceDoesNotExist(ApiError):
    error_code = "RESOURCE_DOES_NOT_EXIST"
    http_status = 404


class EndpointNotFound(ApiError):
    error_code = "ENDPOINT_NOT_FOUND"
    http_status = 404


class ResourceAlreadyExists(ApiError):
    error_code = "RESOURCE_ALREADY_EXISTS"
    http_status = 400


class RequestTooLarge(ApiError):
    error_code = "MAX_REQUEST_SIZE_EXCEEDED"
    http_status = 413


class QuotaExceeded(ApiError):
    error_code = "QUOTA_EXCEEDED"
    http_status = 400


class RequestLimitExceeded(ApiError):
    """More is asked for than is done in time. Clients wait (Retry-After) and ask again."""

    error_code = "REQUEST_LIMIT_EXCEEDED"
    http_status = 429


class TemporarilyUnavailable(ApiError):
    """Clients wait and retry (Retry-After): only for what a retry cures."""

    error_code = "TEMPORARILY_UNAVAILABLE"
    http_status = 503


class StorageFull(ApiError):
    """No room on the disk: what a retry does not cure, and freeing space does."""

    error_code = "RESOURCE_EXHAUSTED"
    http_status = 507


class DatabaseTrouble(ApiError):
    """The database cannot be used now: away or full. `reason` is its own word, for the log: it may name hosts and paths."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class DatabaseAway(TemporarilyUnavailable, DatabaseTrouble):
    def __init__(self, reason: str) -> None:
        super().__init__("The workspace's database cannot be used at the moment. Try again.", reason=reason)


class DatabaseFull(StorageFull, DatabaseTrouble):
    def __init__(self, reason: str) -> None:
        super().__init__(
            "The disk of the workspace's database is full, so nothing can be changed. Free space there; what runs goes on.",
            reason=reason,
        )


class CommandError(ApiError):
    """An error of the 1.2 command API: its body is `{"error": message}` with no code."""

    http_status = 400


class ClusterNotReady(CommandError):
    """Commands cannot run yet, and a retry will cure it: clients retry on the exception's name in the message."""

    http_status = 500

    def __init__(self, detail: str) -> None:
        super().__init__(f"ClusterNotReadyException: {detail}")


def is_full_disk(error: BaseException) -> bool:
    """Whether the error says that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
