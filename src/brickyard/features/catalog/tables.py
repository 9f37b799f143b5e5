"""Tables and views for clients of Unity Catalog's API: what their descriptions in the metastore say. Spark changes them."""

from __future__ import annotations

from typing import Final, NamedTuple

from brickyard.access import Authorizer
from brickyard.domain.access import ObjectKind, Permission, SecurableObject
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.catalog.metastorework import run
from brickyard.features.catalog.model import TableDoesNotExist, stable_id
from brickyard.features.catalog.tabledescriptions import TableDescription, described
from brickyard.storage.metastore import Kind, MetastoreFiles, Refused, read
from brickyard.storage.schemas import ONE, Schemas
from brickyard.store.store import Store

MAX_READ: Final = 16 << 20  # bytes of a description; larger ones, with tens of thousands of partitions, are shown by name alone


class Table(NamedTuple):
    """A table as clients see it. The time in epoch milliseconds."""

    catalog: str
    schema: str
    name: str
    modified_ms: int
    description: TableDescription

    @property
    def full_name(self) -> str:
        return f"{self.catalog}.{self.schema}.{self.name}"

    @property
    def table_id(self) -> str:
        """Always the same for a name."""
        return stable_id("table", self.full_name)


class TableService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, metastore: MetastoreFiles, schemas: Schemas, store: Store, authorizer: Authorizer) -> None:
        self._metastore = metastore
        self._schemas = schemas
        self._store = store
        self._authorizer = authorizer

    async def of_schema(self, caller: Caller, catalog: str, schema: str, *, after: str, limit: int) -> tuple[list[Table], str]:
        """At most `limit` tables and views by name, from the first one after `after`, and the `after` of the next page, "" for
        none."""
        await self._may_see(caller, f"{catalog}.{schema}")

        def find() -> tuple[list[Table], str]:
            kept = self._schemas.catalog(catalog)
            name = self._schemas.schema(kept, schema)
            left = [each for each in self._names(kept, name) if each > after]
            found = [table for each in left[:limit] if (table := self._table(kept, name, each)) is not None]
            return found, left[limit - 1] if len(left) > limit else ""

        return await run(find)

    async def functions_of(self, caller: Caller, catalog: str, schema: str) -> list[tuple[str, str, str]]:
        """The functions that users have made in a schema: catalog, schema and name of each."""
        await self._may_see(caller, f"{catalog}.{schema}")

        def find() -> list[tuple[str, str, str]]:
            kept = self._schemas.catalog(catalog)
            name = self._schemas.schema(kept, schema)
            return [(kept, name, each) for each in self._names(kept, name, "function")]

        return await run(find)

    async def read(self, caller: Caller, full_name: str) -> Table:
        """The table or view with that name of three parts."""
        table = await self.find(caller, full_name)
        if table is None:
            raise TableDoesNotExist(f"Table '{full_name[:767]}' does not exist.")
        return table

    async def find(self, caller: Caller, full_name: str) -> Table | None:
        """The same; None if there is no such table."""
        parts = full_name.split(".")
        await self._may_see(caller, ".".join(parts[:2]))
        if len(parts) != 3:
            raise InvalidParameterValue(f"{full_name[:300]!r} is not a name of the form catalog.schema.table.")

        def look() -> Table | None:
            catalog = self._schemas.catalog(parts[0])
            schema = self._schemas.schema(catalog, parts[1])
            if catalog not in ONE:
                return None
            return self._table(catalog, schema, parts[2]) or self._table(catalog, schema, parts[2].lower())

        return await run(look)

    def facts(self, full_name: str) -> tuple[str, str] | None:
        """Format and location of the table with that name of three parts, in capitals and as a URL; None if there is none.
        Blocks."""
        parts = full_name.split(".")
        catalog = self._schemas.catalog(parts[0])
        if catalog not in ONE:
            return None
        schema = self._schemas.schema(catalog, parts[1])
        table = self._table(catalog, schema, parts[2]) or self._table(catalog, schema, parts[2].lower())
        return None if table is None else (table.description.format, table.description.location)

    def _names(self, catalog: str, schema: str, kind: Kind = "table") -> list[str]:
        try:
            return self._metastore.names(schema, kind) if catalog in ONE else []
        except Refused:  # the name of a directory that is too long for a database
            return []

    def _table(self, catalog: str, schema: str, name: str) -> Table | None:
        try:
            held = read(self._metastore.entry(schema, "table", name), limit=MAX_READ)
        except Refused:
            return None
        return None if held is None else Table(catalog, schema, name, held.modified_ms, described(held.text))

    async def _may_see(self, caller: Caller, schema: str) -> None:
        on = SecurableObject(ObjectKind.SCHEMA, schema[:511])
        to = "see the tables of"
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, Permission.USE_SCHEMA, on, to=to))
