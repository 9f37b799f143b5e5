"""Catalogs and schemas: the metastore's databases, with an owner.

The metastore's files are the one record, which Spark reads and writes as well: no cluster has to run, and each sees at once what
the other has made. What a cluster's users may do in Spark is not decided here (docs/dev/tables.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from brickyard.access import Authorizer
from brickyard.access.holders import group_holder, named, user_holder
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import ObjectKind, Permission, SecurableObject
from brickyard.domain.caller import Caller
from brickyard.domain.errors import (
    Aborted,
    InvalidParameterValue,
    TemporarilyUnavailable,
)
from brickyard.features.catalog import rules
from brickyard.features.catalog.metastorework import run
from brickyard.features.catalog.model import (
    CatalogAlreadyExists,
    MetastoreInfo,
    PrincipalDoesNotExist,
    Record,
    Schema,
    SchemaAlreadyExists,
    SchemaChanges,
    SchemaNotEmpty,
    stable_id,
)
from brickyard.plan.access import holders
from brickyard.storage.metastore import DEFAULT, KINDS, MetastoreFiles, Refused, read, version_of
from brickyard.storage.schemas import MAIN, ONE, Schemas
from brickyard.store.store import Store
from brickyard.store.tx import Tx

T = TypeVar("T")
_ATTEMPTS = 20


class SchemaVolumes(Protocol):
    """The volumes of schemas: `VolumeService`."""

    async def remove_schema(self, caller: Caller, catalog: str, schema: str, *, force: bool) -> bool:
        """Removes the schema's directories, with `force` after its volumes. Returns whether it has none any more."""
        ...


class CatalogService:
    """One per server. Methods raise ApiError."""

    def __init__(
        self,
        *,
        metastore: MetastoreFiles,
        schemas: Schemas,
        volumes: SchemaVolumes,
        workspace_id: str,
        store: Store,
        authorizer: Authorizer,
    ) -> None:
        self._metastore = metastore
        self._schemas = schemas
        self._volumes = volumes
        self._workspace_id = workspace_id
        self._store = store
        self._authorizer = authorizer

    @property
    def metastore_id(self) -> str:
        """Always the same for a workspace."""
        return stable_id("metastore", self._workspace_id)

    async def metastore(self, caller: Caller) -> MetastoreInfo:
        """The one metastore."""
        await self._require(caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="see the metastore of the")
        return MetastoreInfo(self.metastore_id, self._workspace_id)

    # --- catalogs ---

    async def catalogs(self, caller: Caller) -> list[str]:
        """The names of all catalogs."""
        names = await run(self._schemas.catalogs)
        return await self._store.read(lambda tx: self._authorizer.shown(tx, caller, ObjectKind.CATALOG, names, _of_catalog))

    async def catalog(self, caller: Caller, name: str) -> str:
        """The catalog's name as it is kept."""
        await self._require(caller, Permission.USE_CATALOG, _of_catalog(name), to="see")
        return await run(lambda: self._schemas.catalog(name))

    async def create_catalog(self, caller: Caller, name: str) -> None:
        """Raises ApiError: a workspace has one catalog."""
        await self._require(caller, Permission.ADMIN, WORKSPACE, to="make a catalog in the")
        if name.lower() in await run(self._schemas.catalogs):
            raise CatalogAlreadyExists(f"Catalog '{name.lower()}' already exists.")
        raise InvalidParameterValue(f"name is {name[:255]!r}; this workspace has one catalog, {MAIN}. Make a schema in it.")

    async def require_manager(self, caller: Caller, name: str) -> str:
        """The catalog's name as it is kept, for who may change catalogs."""
        await self._require(caller, Permission.ADMIN, _of_catalog(name), to="change")
        return await run(lambda: self._schemas.catalog(name))

    async def delete_catalog(self, caller: Caller, name: str) -> None:
        """Raises ApiError: catalogs are there as long as there is something in them."""
        kept = await self.require_manager(caller, name)
        why = "every workspace has it" if kept in ONE else "it ends with its last volume"
        raise InvalidParameterValue(f"name: the catalog {kept} cannot be deleted; {why}.")

    # --- schemas ---

    async def schemas(self, caller: Caller, catalog: str, *, after: str, limit: int) -> tuple[list[Schema], str]:
        """At most `limit` schemas by name, from the first one after `after`, and the `after` of the next page, "" for none."""
        await self._require(caller, Permission.USE_CATALOG, _of_catalog(catalog), to="list the schemas of")

        def find() -> tuple[list[Schema], str]:
            kept = self._schemas.catalog(catalog)
            left = [name for name in self._schemas.names(kept) if name > after]
            found = [Schema(kept, name, self._record(kept, name)) for name in left[:limit]]
            return found, left[limit - 1] if len(left) > limit else ""

        found, after = await run(find)
        return await self._with_owners(found), after

    async def schema(self, caller: Caller, full_name: str) -> Schema:
        """The schema with that name of two parts."""
        await self._require(caller, Permission.USE_SCHEMA, _of_schema(full_name), to="see")
        return await self._look(full_name)

    async def create(self, caller: Caller, catalog: str, name: str, changes: SchemaChanges) -> Schema:
        """Makes a schema of the caller's, or takes over a name under which there are volumes alone."""
        await self._require(caller, Permission.CREATE_SCHEMA, _of_catalog(catalog), to="make a schema in")
        wanted = rules.schema_name(name)
        owned = changes._replace(owner=caller.user_name)
        text = rules.changed(rules.new_description(wanted), owned, owner_id=caller.user_id)

        def make() -> Schema:
            kept = self._schemas.catalog(catalog)
            if kept not in ONE:
                raise InvalidParameterValue(f"catalog_name is {kept}; only {MAIN} takes schemas, the others hold volumes alone.")
            with self._metastore.locked():
                if wanted == DEFAULT or self._metastore.put(self._metastore.record(wanted), "", text) is None:
                    raise SchemaAlreadyExists(f"Schema '{wanted}' already exists.")
            return self._find(f"{kept}.{wanted}")

        return (await self._with_owners([await self._change(make)]))[0]

    async def update(self, caller: Caller, full_name: str, changes: SchemaChanges) -> Schema:
        """Changes a schema's comment, properties or owner."""
        owner_id = None if changes.owner is None else await self._store.read(lambda tx: _holder(tx, changes.owner or ""))
        for _ in range(_ATTEMPTS):
            schema = await self._managed(caller, full_name, to="change")
            if schema.catalog not in ONE:
                raise InvalidParameterValue(f"full_name: {schema.full_name} holds volumes alone, and keeps nothing else.")

            def put(schema: Schema = schema) -> bool:
                path = self._metastore.record(schema.name)
                held = read(path, limit=2 * rules.MAX_DESCRIPTION)
                if (held.version if held else "") != schema.record.version:
                    return False
                before = held.text if held else rules.new_description(schema.name, usual=schema.name == DEFAULT)
                text = rules.changed(before, changes, owner_id=owner_id)
                with self._metastore.locked():
                    return self._metastore.put(path, schema.record.version, text) is not None

            if await self._change(put):
                return await self._look(full_name)
        raise TemporarilyUnavailable(f"{full_name[:300]} is being changed all the time. Try again.")

    async def delete(self, caller: Caller, full_name: str, *, force: bool) -> None:
        """Removes a schema; one with tables, functions or volumes only if `force`. The rows of its tables are removed by the
        next driver that uses the metastore."""
        schema = await self._managed(caller, full_name, to="delete")
        if schema.catalog in ONE and schema.name == DEFAULT:
            raise InvalidParameterValue(f"full_name: {schema.full_name} cannot be deleted; every workspace has it.")
        if not force:
            await run(lambda: self._require_empty(schema))
        if not await self._volumes.remove_schema(caller, schema.catalog, schema.name, force=force):
            raise SchemaNotEmpty(
                f"Schema '{schema.full_name}' is not empty. Its directory in /Volumes has volumes that were made meanwhile, "
                "or files that are in no volume; remove those on a cluster."
            )

        def drop() -> None:
            if schema.catalog not in ONE:
                return
            with self._metastore.locked():
                version = version_of(self._metastore.record(schema.name))
                if version and version != schema.record.version:  # it may be another one of the name
                    raise Aborted(f"Schema '{schema.full_name}' has been changed meanwhile. Look at it, and delete it again.")
                if version and self._metastore.drop_database(schema.name, cascade=force) is None:
                    self._require_empty(schema)  # a table was made meanwhile

        await self._change(drop)

    def _require_empty(self, schema: Schema) -> None:
        kept = schema.catalog in ONE and bool(schema.record.version)
        tables, functions = [len(self._metastore.names(schema.name, kind)) if kept else 0 for kind in KINDS]
        volumes = sum(each.is_dir for each in self._schemas.volumes(schema.catalog, schema.name))
        if tables or functions or volumes:
            raise SchemaNotEmpty(
                f"Schema '{schema.full_name}' is not empty. The schema has {tables} tables(s), {functions} functions(s), "
                f"{volumes} volumes(s)"
            )

    async def _managed(self, caller: Caller, full_name: str, *, to: str) -> Schema:
        """The schema, if the caller may change it. Everybody may know which ones there are."""
        schema = await self._look(full_name)
        mine = schema.record.owner in holders(caller)
        on = SecurableObject(ObjectKind.SCHEMA, schema.full_name, caller.user_name if mine else "")
        await self._require(caller, Permission.MANAGE, on, to=to)
        return schema

    async def _look(self, full_name: str) -> Schema:
        return (await self._with_owners([await run(lambda: self._find(full_name))]))[0]

    def _find(self, full_name: str) -> Schema:
        catalog, dot, name = full_name.partition(".")
        if not dot or "." in name:
            raise InvalidParameterValue(f"{full_name[:300]!r} is not a name of the form catalog.schema.")
        kept = self._schemas.catalog(catalog)
        name = self._schemas.schema(kept, name)
        return Schema(kept, name, self._record(kept, name))

    def _record(self, catalog: str, name: str) -> Record:
        try:
            held = read(self._metastore.record(name), limit=2 * rules.MAX_DESCRIPTION) if catalog in ONE else None
        except Refused:  # the name of a directory that is too long for a database
            held = None
        if held is None:
            usual = catalog in ONE and name == DEFAULT
            return rules.record_of("", rules.new_description(name, usual=True), 0) if usual else Record()
        return rules.record_of(held.version, held.text, held.modified_ms)

    async def _with_owners(self, schemas: Iterable[Schema]) -> list[Schema]:
        found = list(schemas)
        ids = {schema.record.owner for schema in found} - {""}
        names = await self._store.read(lambda tx: named(tx, ids)) if ids else {}
        return [
            schema._replace(owner=names[schema.record.owner].name) if schema.record.owner in names else schema for schema in found
        ]

    async def _change(self, work: Callable[[], T]) -> T:
        await self._store.before_effect()
        return await run(work)

    async def _require(self, caller: Caller, permission: Permission, on: SecurableObject, *, to: str) -> None:
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, permission, on, to=to))


def _holder(tx: Tx, name: str) -> str:
    """The id of the identity or group with that name."""
    if (found := user_holder(tx, name) or group_holder(tx, name)) is None:
        raise PrincipalDoesNotExist(f"Could not find principal with name {name[:255]}")
    return found


def _of_catalog(name: str) -> SecurableObject:
    return SecurableObject(ObjectKind.CATALOG, name[:255])


def _of_schema(full_name: str) -> SecurableObject:
    return SecurableObject(ObjectKind.SCHEMA, full_name[:511])
