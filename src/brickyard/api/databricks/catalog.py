"""Catalogs, schemas and the metastore (`/api/2.1/unity-catalog`), as names over what exists."""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.api.databricks.nametokens import name_after, token_after
from brickyard.api.edge.group import ADMIN, IN_WORKSPACE, Group
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import Wire
from brickyard.features.catalog.model import MetastoreInfo, Schema, SchemaChanges
from brickyard.features.catalog.service import CatalogService

PAGE = 1000
_KIND = "MANAGED_CATALOG"
_ELSEWHERE = "files are in the workspace's storage"
_REFUSED = {
    "storage_root": _ELSEWHERE,
    "storage_location": _ELSEWHERE,
    "managed_location": _ELSEWHERE,
    "custom_max_retention_hours": "what is dropped is removed at once",
    "managed_encryption_settings": "the storage's disk may be encrypted",
    "connection_name": "there are no foreign catalogs",
    "options": "there are no foreign catalogs",
    "provider_name": "there is no Delta Sharing",
    "share_name": "there is no Delta Sharing",
    "new_name": "the name of a schema or catalog cannot be changed",
}


class _Foreign(Wire, frozen=True, kw_only=True):
    """What has no meaning here. Empty values are taken for none."""

    storage_root: str = ""
    storage_location: str = ""
    managed_location: str = ""
    custom_max_retention_hours: int = 0
    managed_encryption_settings: dict[str, Any] = {}
    connection_name: str = ""
    options: dict[str, Any] = {}
    provider_name: str = ""
    share_name: str = ""
    new_name: str = ""
    enable_predictive_optimization: str = ""

    def refuse(self) -> None:
        """Raises InvalidParameterValue for the first field that is set."""
        for field, why in _REFUSED.items():
            if getattr(self, field):
                raise InvalidParameterValue(f"{field} is not supported: {why}. Leave it out.")
        if self.enable_predictive_optimization not in ("", "INHERIT", "DISABLE"):
            raise InvalidParameterValue(
                "enable_predictive_optimization is not supported: nothing optimizes tables. Leave it out, or set INHERIT."
            )


class ListCatalogs(Wire, frozen=True, kw_only=True):
    max_results: int = 0
    page_token: str = ""

    @property
    def limit(self) -> int:
        if self.max_results < 0:
            raise InvalidParameterValue(f"max_results is {self.max_results}; it must not be negative.")
        return min(self.max_results or PAGE, PAGE)


class CatalogName(Wire, frozen=True, kw_only=True):
    name: str


class CreateCatalog(_Foreign, frozen=True, kw_only=True):
    name: str


class UpdateCatalog(_Foreign, frozen=True, kw_only=True):
    name: str
    comment: str = ""
    properties: dict[str, str] = {}
    owner: str = ""
    isolation_mode: str = ""


class DeleteCatalog(CatalogName, frozen=True, kw_only=True):
    force: bool = False


class CatalogInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    full_name: str
    catalog_type: str
    metastore_id: str
    isolation_mode: str
    securable_type: str


class ListCatalogsResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    catalogs: list[CatalogInfo]
    next_page_token: str = ""


class SchemaName(Wire, frozen=True, kw_only=True):
    full_name: str


class CreateSchema(_Foreign, frozen=True, kw_only=True):
    catalog_name: str
    name: str
    comment: str | None = None
    properties: dict[str, str] | None = None


class UpdateSchema(_Foreign, frozen=True, kw_only=True):
    full_name: str
    comment: str | None = None
    properties: dict[str, str] | None = None
    owner: str = ""


class ListSchemas(ListCatalogs, frozen=True, kw_only=True):
    catalog_name: str


class DeleteSchema(SchemaName, frozen=True, kw_only=True):
    force: bool = False


class SchemaInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`updated_at` in epoch milliseconds; absent where nobody has changed the schema."""

    name: str
    catalog_name: str
    full_name: str
    catalog_type: str
    metastore_id: str
    schema_id: str
    comment: str = ""
    owner: str = ""
    properties: dict[str, str] = {}
    storage_location: str = ""
    updated_at: int = 0


class ListSchemasResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    schemas: list[SchemaInfo]
    next_page_token: str = ""


class MetastoreAssignment(msgspec.Struct, frozen=True, kw_only=True):
    metastore_id: str
    workspace_id: int
    default_catalog_name: str = "main"


class MetastoreSummary(msgspec.Struct, frozen=True, kw_only=True):
    metastore_id: str
    name: str = "brickyard"


# --- catalogs ---


async def _create_catalog(catalogs: CatalogService, caller: Caller, request: CreateCatalog) -> CatalogInfo:
    await catalogs.create_catalog(caller, request.name)
    return _catalog(catalogs, request.name)


async def _list_catalogs(catalogs: CatalogService, caller: Caller, request: ListCatalogs) -> ListCatalogsResponse:
    names = [name for name in await catalogs.catalogs(caller) if name > name_after(request.page_token)]
    page = names[: request.limit]
    following = token_after(page[-1]) if len(names) > len(page) else ""
    return ListCatalogsResponse(catalogs=[_catalog(catalogs, name) for name in page], next_page_token=following)


async def _read_catalog(catalogs: CatalogService, caller: Caller, request: CatalogName) -> CatalogInfo:
    return _catalog(catalogs, await catalogs.catalog(caller, request.name))


async def _update_catalog(catalogs: CatalogService, caller: Caller, request: UpdateCatalog) -> CatalogInfo:
    """Takes what is so already: clients send it back."""
    name = await catalogs.require_manager(caller, request.name)
    request.refuse()
    for field in ("comment", "properties", "owner"):
        if getattr(request, field):
            raise InvalidParameterValue(f"{field} of a catalog is not supported: catalogs are names alone. Set it on a schema.")
    if request.isolation_mode not in ("", "OPEN"):
        raise InvalidParameterValue("isolation_mode is not supported: all users see the catalog. Leave it out, or set OPEN.")
    return _catalog(catalogs, name)


async def _delete_catalog(catalogs: CatalogService, caller: Caller, request: DeleteCatalog) -> None:
    await catalogs.delete_catalog(caller, request.name)


def _catalog(catalogs: CatalogService, name: str) -> CatalogInfo:
    return CatalogInfo(
        name=name,
        full_name=name,
        catalog_type=_KIND,
        metastore_id=catalogs.metastore_id,
        isolation_mode="OPEN",
        securable_type="CATALOG",
    )


# --- schemas ---


async def _create_schema(catalogs: CatalogService, caller: Caller, request: CreateSchema) -> SchemaInfo:
    request.refuse()
    changes = SchemaChanges(request.comment, request.properties)
    return _schema(catalogs, await catalogs.create(caller, request.catalog_name, request.name, changes))


async def _list_schemas(catalogs: CatalogService, caller: Caller, request: ListSchemas) -> ListSchemasResponse:
    found, after = await catalogs.schemas(caller, request.catalog_name, after=name_after(request.page_token), limit=request.limit)
    return ListSchemasResponse(schemas=[_schema(catalogs, each) for each in found], next_page_token=token_after(after))


async def _read_schema(catalogs: CatalogService, caller: Caller, request: SchemaName) -> SchemaInfo:
    return _schema(catalogs, await catalogs.schema(caller, request.full_name))


async def _update_schema(catalogs: CatalogService, caller: Caller, request: UpdateSchema) -> SchemaInfo:
    request.refuse()
    changes = SchemaChanges(request.comment, request.properties, request.owner or None)
    return _schema(catalogs, await catalogs.update(caller, request.full_name, changes))


async def _delete_schema(catalogs: CatalogService, caller: Caller, request: DeleteSchema) -> None:
    await catalogs.delete(caller, request.full_name, force=request.force)


def _schema(catalogs: CatalogService, schema: Schema) -> SchemaInfo:
    return SchemaInfo(
        name=schema.name,
        catalog_name=schema.catalog,
        full_name=schema.full_name,
        catalog_type=_KIND,
        metastore_id=catalogs.metastore_id,
        schema_id=schema.schema_id,
        comment=schema.record.comment,
        owner=schema.owner,
        properties=dict(schema.record.properties),
        storage_location=schema.record.location,
        updated_at=schema.record.modified_ms,
    )


# --- the metastore ---


async def _assignment(catalogs: CatalogService, caller: Caller) -> MetastoreAssignment:
    info: MetastoreInfo = await catalogs.metastore(caller)
    return MetastoreAssignment(metastore_id=info.metastore_id, workspace_id=int(info.workspace_id))


async def _summary(catalogs: CatalogService, caller: Caller) -> MetastoreSummary:
    return MetastoreSummary(metastore_id=(await catalogs.metastore(caller)).metastore_id)


_USE = Need(Permission.USE_CATALOG, ObjectKind.CATALOG, "name")
_ADMINISTER = Need(Permission.ADMIN, ObjectKind.CATALOG, "name")
_MANAGE = Need(Permission.MANAGE, ObjectKind.SCHEMA, "full_name")
_MAKE = Need(Permission.CREATE_SCHEMA, ObjectKind.CATALOG, "catalog_name")
_LIST = Need(Permission.USE_CATALOG, ObjectKind.CATALOG, "catalog_name")

_CATALOGS = Group("catalogs", lambda ctx: ctx.services.catalogs, "/api/2.1/unity-catalog/catalogs", errors=(404,))
_SCHEMAS = Group("schemas", lambda ctx: ctx.services.catalogs, "/api/2.1/unity-catalog/schemas", errors=(404,))
_METASTORES = Group("metastores", lambda ctx: ctx.services.catalogs, "/api/2.1/unity-catalog", needs=IN_WORKSPACE)
OPERATIONS: tuple[Operation, ...] = (
    _CATALOGS("POST", _create_catalog, "Refused: a workspace has one catalog", name="create", needs=ADMIN),
    _CATALOGS("GET /{name}", _read_catalog, "Look at a catalog", name="read", needs=_USE),
    _CATALOGS("GET", _list_catalogs, "Catalogs", name="list", needs=Need(Permission.USE_CATALOG, ObjectKind.CATALOG, EVERY)),
    _CATALOGS("PATCH /{name}", _update_catalog, "Take back what a catalog is", name="update", needs=_ADMINISTER),
    _CATALOGS("DELETE /{name}", _delete_catalog, "Refused: catalogs are names alone", name="delete", needs=_ADMINISTER),
    _SCHEMAS("POST", _create_schema, "Make a schema", name="create", needs=_MAKE, errors=(404, 507)),
    _SCHEMAS(
        "GET /{full_name}",
        _read_schema,
        "Look at a schema",
        name="read",
        needs=Need(Permission.USE_SCHEMA, ObjectKind.SCHEMA, "full_name"),
    ),
    _SCHEMAS("GET", _list_schemas, "Schemas of a catalog", name="list", needs=_LIST),
    _SCHEMAS("PATCH /{full_name}", _update_schema, "Change a schema", name="update", needs=_MANAGE, errors=(404, 507)),
    _SCHEMAS(
        "DELETE /{full_name}",
        _delete_schema,
        "Remove a schema, with `force` also one that is not empty",
        name="delete",
        needs=_MANAGE,
        errors=(404, 409),
    ),
    _METASTORES("GET /current-metastore-assignment", _assignment, "The metastore of the workspace", name="current"),
    _METASTORES("GET /metastore_summary", _summary, "The metastore of the workspace", name="summary"),
)
