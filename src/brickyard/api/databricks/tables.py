"""Tables and views (`/api/2.1/unity-catalog/tables`): what the metastore says of them. They are made and changed in Spark."""

from __future__ import annotations

import msgspec

from brickyard.api.databricks.nametokens import name_after, token_after
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import Wire
from brickyard.features.catalog.tabledescriptions import Column
from brickyard.features.catalog.tables import Table, TableService

PAGE = 50


class ListTables(Wire, frozen=True, kw_only=True):
    catalog_name: str
    schema_name: str
    max_results: int = 0
    page_token: str = ""
    omit_columns: bool = False
    omit_properties: bool = False

    @property
    def schema(self) -> str:
        return f"{self.catalog_name}.{self.schema_name}"


class TableName(Wire, frozen=True, kw_only=True):
    full_name: str

    @property
    def schema(self) -> str:
        return ".".join(self.full_name.split(".")[:2])


class ColumnInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type_text: str
    type_name: str
    type_json: str
    position: int
    nullable: bool
    comment: str = ""
    partition_index: int | None = None


class TableInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Times in epoch milliseconds. Of a table whose description makes no sense, the name alone is known."""

    name: str
    catalog_name: str
    schema_name: str
    full_name: str
    table_id: str
    updated_at: int
    table_type: str = ""
    data_source_format: str = ""
    comment: str = ""
    storage_location: str = ""
    view_definition: str = ""
    columns: list[ColumnInfo] = []
    properties: dict[str, str] = {}
    created_at: int = 0


class ListTablesResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    tables: list[TableInfo]
    next_page_token: str = ""


class ListFunctions(Wire, frozen=True, kw_only=True):
    catalog_name: str
    schema_name: str

    @property
    def schema(self) -> str:
        return f"{self.catalog_name}.{self.schema_name}"


class FunctionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Of the functions' bodies and parameters only Spark knows."""

    name: str
    catalog_name: str
    schema_name: str
    full_name: str


class ListFunctionsResponse(msgspec.Struct, frozen=True, kw_only=True):
    functions: list[FunctionInfo]


class TableExistsResponse(msgspec.Struct, frozen=True, kw_only=True):
    table_exists: bool


async def _list(tables: TableService, caller: Caller, request: ListTables) -> ListTablesResponse:
    if request.max_results < 0:
        raise InvalidParameterValue(f"max_results is {request.max_results}; it must not be negative.")
    found, after = await tables.of_schema(
        caller,
        request.catalog_name,
        request.schema_name,
        after=name_after(request.page_token),
        limit=min(request.max_results or PAGE, PAGE),
    )
    infos = [_info(each, columns=not request.omit_columns, properties=not request.omit_properties) for each in found]
    return ListTablesResponse(tables=infos, next_page_token=token_after(after))


async def _read(tables: TableService, caller: Caller, request: TableName) -> TableInfo:
    return _info(await tables.read(caller, request.full_name))


async def _exists(tables: TableService, caller: Caller, request: TableName) -> TableExistsResponse:
    return TableExistsResponse(table_exists=await tables.find(caller, request.full_name) is not None)


async def _functions(tables: TableService, caller: Caller, request: ListFunctions) -> ListFunctionsResponse:
    found = await tables.functions_of(caller, request.catalog_name, request.schema_name)
    return ListFunctionsResponse(
        functions=[
            FunctionInfo(name=name, catalog_name=catalog, schema_name=schema, full_name=f"{catalog}.{schema}.{name}")
            for catalog, schema, name in found
        ]
    )


def _info(table: Table, *, columns: bool = True, properties: bool = True) -> TableInfo:
    description = table.description
    return TableInfo(
        name=table.name,
        catalog_name=table.catalog,
        schema_name=table.schema,
        full_name=table.full_name,
        table_id=table.table_id,
        updated_at=table.modified_ms,
        table_type=description.kind,
        data_source_format=description.format,
        comment=description.comment,
        storage_location=description.location,
        view_definition=description.view,
        columns=[_column(position, each) for position, each in enumerate(description.columns)] if columns else [],
        properties=description.properties if properties else {},
        created_at=description.created_ms,
    )


def _column(position: int, column: Column) -> ColumnInfo:
    return ColumnInfo(
        name=column.name,
        type_text=column.type_text,
        type_name=column.type_name,
        type_json=column.type_json,
        position=position,
        nullable=column.nullable,
        comment=column.comment,
        partition_index=column.partition,
    )


_SEE = Need(Permission.USE_SCHEMA, ObjectKind.SCHEMA, "schema")
_TABLES = Group("tables", lambda ctx: ctx.services.tables, "/api/2.1/unity-catalog/tables", needs=_SEE, errors=(404,))
OPERATIONS: tuple[Operation, ...] = (
    _TABLES("GET", _list, "Tables and views of a schema", name="list"),
    _TABLES("GET /{full_name}", _read, "Look at a table or view", name="read"),
    Group("functions", lambda ctx: ctx.services.tables, "/api/2.1/unity-catalog/functions", needs=_SEE, errors=(404,))(
        "GET", _functions, "Functions that users have made in a schema", name="list"
    ),
    _TABLES("GET /{full_name}/exists", _exists, "Whether there is a table or view of a name", name="exists"),
)
