"""Catalogs and schemas, which are names over what exists: databases of the metastore, and the directories above volumes.

A workspace has one catalog, and two names for it. Its schemas are the metastore's databases, and the directories below it in the
volumes' tree, which programs make. A directory at the tree's top with another name is a catalog that has volumes alone; no API
makes one. Spark writes the names of databases in lower case, so a schema's name is that of its directories in lower case.
"""

from __future__ import annotations

import contextlib
from typing import Final

from brickyard.domain.errors import CatalogDoesNotExist, InvalidParameterValue, SchemaDoesNotExist
from brickyard.storage.metastore import DEFAULT, MetastoreFiles
from brickyard.storage.safetree import Entry, SafeTree

MAIN: Final = "main"
HIVE: Final = "hive_metastore"
ONE: Final = (MAIN, HIVE)


class Schemas:
    """Which there are. Methods block, and raise OSError and ApiError."""

    def __init__(self, *, metastore: MetastoreFiles, volumes: SafeTree) -> None:
        self._metastore = metastore
        self._volumes = volumes

    def catalogs(self) -> list[str]:
        """The names of all catalogs, sorted."""
        return sorted({*ONE, *(each.parts[-1] for each in self._directories(()))})

    def catalog(self, name: str) -> str:
        """The catalog's name as it is kept. Raises CatalogDoesNotExist."""
        if (folded := name.lower()) in ONE:
            return folded
        if name not in self.catalogs():
            raise CatalogDoesNotExist(f"Catalog '{name[:255]}' does not exist.")
        return name

    def names(self, catalog: str) -> list[str]:
        """The names of the catalog's schemas, sorted. Raises CatalogDoesNotExist."""
        catalog = self.catalog(catalog)
        directories = {each.parts[-1].lower() for each in self._above(catalog)}
        if catalog not in ONE:
            return sorted(directories)
        kept = {name for name in self._metastore.databases() if self._metastore.exists(name)}
        return sorted({DEFAULT, *kept, *directories})

    def schema(self, catalog: str, name: str) -> str:
        """The schema's name as it is kept. Raises CatalogDoesNotExist and SchemaDoesNotExist."""
        names = self.names(catalog)
        if name in names:
            return name
        if (folded := name.lower()) not in names:
            raise SchemaDoesNotExist(f"Schema '{catalog[:255]}.{name[:255]}' does not exist.")
        return folded

    def directories(self, catalog: str, schema: str) -> list[Entry]:
        """The directories in which the volumes of a schema are: their names may differ in case."""
        return [each for each in self._above(catalog) if each.parts[-1].lower() == schema.lower()]

    def require_place(self, catalog: str, schema: str) -> None:
        """Raises ApiError unless volumes can be made in the schema."""
        if self.catalog(catalog) == HIVE:
            raise InvalidParameterValue(f"catalog_name is {catalog}; volumes are in the catalog {MAIN}.")
        if catalog not in (MAIN, *self.catalogs()):
            raise InvalidParameterValue(
                f"catalog_name is {catalog}; write {MAIN}, since the paths of volumes are case-sensitive."
            )
        self.schema(catalog, schema)

    def volumes(self, catalog: str, schema: str) -> list[Entry]:
        """What is in the directories of an existing schema: volumes, and files that programs have put beside them."""
        found: list[Entry] = []
        for above in self.directories(catalog, schema):
            with contextlib.suppress(FileNotFoundError):
                found += self._volumes.list(above.parts)
        return sorted(found)

    def remove_empty(self, catalog: str, schema: str) -> bool:
        """Removes those directories of a schema that are empty. Returns whether it has none any more."""
        for above in self.directories(catalog, schema):
            self.prune(above.parts)
        return not self.directories(catalog, schema)

    def prune(self, schema: tuple[str, ...]) -> None:
        """Removes the directory of a schema, and its catalog's, unless something is in them."""
        for above in (schema, schema[:1]):
            with contextlib.suppress(OSError):
                self._volumes.remove(above, recursive=False)

    def page(self, parts: tuple[str, ...], *, after: str, limit: int) -> tuple[list[Entry], str]:
        """A page of a directory of the volumes' tree: see `SafeTree.page`. Catalogs and schemas have their entries before they
        have a directory. Raises FileNotFoundError."""
        if len(parts) < 2:
            entries = self._in_catalog(parts[0]) if parts else top_entries(self._volumes)
            left = [entry for entry in entries if entry.parts[-1] > after]
            return left[:limit], left[limit - 1].parts[-1] if len(left) > limit else ""
        try:
            return self._volumes.page(parts, after=after, limit=limit)
        except FileNotFoundError:
            if len(parts) != 2 or parts[0] != MAIN or parts[1] not in self.names(MAIN):
                raise
            return [], ""

    def _in_catalog(self, catalog: str) -> list[Entry]:
        """What is in a catalog of the volumes' tree, by name, and each schema that has no directory because it has no volume yet.
        Raises FileNotFoundError."""
        if catalog != MAIN:
            return self._volumes.list((catalog,))
        found: list[Entry] = []
        with contextlib.suppress(FileNotFoundError):
            found = self._volumes.list((catalog,))
        taken = {each.parts[-1].lower() for each in found}
        missing = (name for name in self.names(catalog) if name.lower() not in taken)
        return sorted([*found, *(Entry((catalog, name), True, 0, 0) for name in missing)])

    def _above(self, catalog: str) -> list[Entry]:
        return [each for name in (ONE if catalog.lower() in ONE else (catalog,)) for each in self._directories((name,))]

    def _directories(self, parts: tuple[str, ...]) -> list[Entry]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return [each for each in self._volumes.list(parts) if each.is_dir and len(each.parts) > len(parts)]
        return []


def top_entries(volumes: SafeTree) -> list[Entry]:
    """What is at the top of the volumes' tree, by name, and `main`, which has no directory before it has a volume."""
    found = volumes.list(())
    return found if any(each.parts == (MAIN,) for each in found) else sorted([*found, Entry((MAIN,), True, 0, 0)])
