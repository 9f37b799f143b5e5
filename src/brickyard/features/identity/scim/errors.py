"""SCIM's own errors: a type for programs beside the message."""

from __future__ import annotations

from enum import StrEnum

from brickyard.domain.errors import ApiError


class ScimType(StrEnum):
    """RFC 7644, section 3.12."""

    INVALID_FILTER = "invalidFilter"
    INVALID_PATH = "invalidPath"
    INVALID_VALUE = "invalidValue"
    INVALID_SYNTAX = "invalidSyntax"
    NO_TARGET = "noTarget"
    MUTABILITY = "mutability"
    UNIQUENESS = "uniqueness"


class ScimError(ApiError):
    """A request that SCIM refuses."""

    error_code = "INVALID_PARAMETER_VALUE"

    def __init__(self, scim_type: ScimType, message: str) -> None:
        super().__init__(message)
        self.scim_type = scim_type
        self.http_status = 409 if scim_type is ScimType.UNIQUENESS else 400
