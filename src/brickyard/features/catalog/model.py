"""What clients see of a schema, and what they ask for."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from brickyard.domain.errors import ApiError, ResourceAlreadyExists, ResourceDoesNotExist


class SchemaAlreadyExists(ResourceAlreadyExists):
    error_code = "SCHEMA_ALREADY_EXISTS"


class CatalogAlreadyExists(ResourceAlreadyExists):
    error_code = "CATALOG_ALREADY_EXISTS"


class SchemaNotEmpty(ApiError):
    error_code = "SCHEMA_NOT_EMPTY"
    http_status = 400


class TableDoesNotExist(ResourceDoesNotExist):
    error_code = "TABLE_DOES_NOT_EXIST"


class PrincipalDoesNotExist(ResourceDoesNotExist):
    error_code = "PRINCIPAL_DOES_NOT_EXIST"


class MetastoreUnusable(ApiError):
    """Its files cannot be read or written."""

    error_code = "IO_ERROR"
    http_status = 400


class Record(NamedTuple):
    """What the metastore has of a schema. `owner`: the id of an identity or a group; "" if the API has set none. `location`: of
    its tables. Times in epoch milliseconds, 0 for unknown."""

    version: str = ""
    comment: str = ""
    properties: Mapping[str, str] = {}
    owner: str = ""
    location: str = ""
    modified_ms: int = 0


class Schema(NamedTuple):
    """A schema as clients see it. `owner`: a name; "" if administrators alone manage it."""

    catalog: str
    name: str
    record: Record
    owner: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.catalog}.{self.name}"

    @property
    def schema_id(self) -> str:
        """Always the same for a name."""
        return stable_id("schema", self.full_name)


class SchemaChanges(NamedTuple):
    """What is to be changed; None stays as it is. `owner`: the name of a user, a service principal or a group."""

    comment: str | None = None
    properties: Mapping[str, str] | None = None
    owner: str | None = None


class MetastoreInfo(NamedTuple):
    """The one metastore of the workspace."""

    metastore_id: str
    workspace_id: str


def stable_id(kind: str, name: str) -> str:
    """An id that is always the same for a name."""
    return str(uuid.UUID(bytes=hashlib.blake2b(f"{kind}:{name}".encode(), digest_size=16).digest()))
