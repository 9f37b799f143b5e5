"""Which catalogs and schemas there are: databases and directories, whatever their case."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.domain.errors import CatalogDoesNotExist, InvalidParameterValue, SchemaDoesNotExist
from brickyard.storage.metastore import MetastoreFiles
from brickyard.storage.safetree import SafeTree
from brickyard.storage.schemas import Schemas, top_entries


class Tree:
    def __init__(self, root: Path) -> None:
        self.metastore = MetastoreFiles(root / "metastore")
        self.volumes = root / "volumes"
        self.volumes.mkdir()
        self.tree = SafeTree(root=self.volumes)
        self.schemas = Schemas(metastore=self.metastore, volumes=self.tree)

    def database(self, name: str) -> None:
        with self.metastore.locked():
            assert self.metastore.put(self.metastore.record(name), "", b"{}")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_new_workspace_has_one_catalog_with_default(tree: Tree) -> None:
    assert tree.schemas.catalogs() == ["hive_metastore", "main"]
    assert tree.schemas.names("main") == tree.schemas.names("Hive_Metastore") == ["default"]
    assert [each.parts for each in top_entries(tree.tree)] == [("main",)]
    assert list(tree.volumes.iterdir()) == [], "nothing is made by looking"


def test_databases_and_directories_are_schemas(tree: Tree) -> None:
    tree.database("sales")
    for path in ("main/Sales/v", "main/SALES/w", "main/raw/v", "hive_metastore/old/v", "dev/x/v"):
        (tree.volumes / path).mkdir(parents=True)
    (tree.volumes / "main" / "file").touch()
    (tree.volumes / "link").symlink_to("dev")
    assert tree.schemas.catalogs() == ["dev", "hive_metastore", "main"]
    assert tree.schemas.names("main") == tree.schemas.names("hive_metastore") == ["default", "old", "raw", "sales"]
    assert tree.schemas.names("dev") == ["x"]
    assert tree.schemas.schema("MAIN", "Raw") == "raw"
    assert [each.parts for each in tree.schemas.volumes("main", "sales")] == [("main", "SALES", "w"), ("main", "Sales", "v")]
    names = [each.parts[-1] for each in tree.schemas.page(("main",), after="", limit=9)[0]]
    assert names == ["SALES", "Sales", "default", "file", "old", "raw"]
    for catalog, schema, error in (
        ("dev", "y", SchemaDoesNotExist),
        ("Dev", "x", CatalogDoesNotExist),
        ("link", "x", CatalogDoesNotExist),
        ("main", "file", SchemaDoesNotExist),
        ("main", "", SchemaDoesNotExist),
    ):
        with pytest.raises(error):
            tree.schemas.schema(catalog, schema)
    tree.schemas.require_place("dev", "x")
    for catalog in ("MAIN", "hive_metastore"):
        with pytest.raises(InvalidParameterValue):
            tree.schemas.require_place(catalog, "raw")


def test_pages_hold_each_entry_once(tree: Tree) -> None:
    for name in "cab":
        tree.database(name)
    (tree.volumes / "main" / "b" / "v").mkdir(parents=True)
    after, found = "", []
    while page := tree.schemas.page(("main",), after=after, limit=1):
        found += [each.parts[-1] for each in page[0]]
        if not (after := page[1]):
            break
    assert found == ["a", "b", "c", "default"]
    assert tree.schemas.page(("main", "a"), after="", limit=1) == ([], "")
    for missing in (("dev",), ("main", "d"), ("dev", "a"), ("main", "a", "v")):
        with pytest.raises(FileNotFoundError):
            tree.schemas.page(missing, after="", limit=1)


def test_only_empty_directories_are_removed(tree: Tree) -> None:
    (tree.volumes / "main" / "A").mkdir(parents=True)
    (tree.volumes / "main" / "a" / "v").mkdir(parents=True)
    assert not tree.schemas.remove_empty("main", "a")
    assert [path.name for path in (tree.volumes / "main").iterdir()] == ["a"]
    (tree.volumes / "main" / "a" / "v").rmdir()
    assert tree.schemas.remove_empty("main", "a") and list(tree.volumes.iterdir()) == []
