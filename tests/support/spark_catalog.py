"""The metastore as Spark's catalog in a cluster's driver uses it (SharedCatalog.java), in its requests and descriptions."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from brickyard.agent.catalog.metastore import Metastore

CATALYST = "org.apache.spark.sql.catalyst.catalog."


class Database(NamedTuple):
    description: str
    location: str
    properties: dict[str, str]


class Catalog:
    """Asks as a driver does."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._metastore = Metastore(root)

    def ask(self, ask: str, **fields: Any) -> dict[str, Any]:
        answer = self._metastore.answer(json.dumps({"ask": ask, **fields}).encode(), cluster_id="one", host=self)
        assert "error" not in answer, answer
        return answer

    def databases(self) -> list[str]:
        found: list[str] = self.ask("databases")["names"]
        return found

    def database(self, name: str) -> Database:
        kind, fields = self._described(self.ask("look", database=name)["found"][""])["database"]
        assert (kind, fields["class"], fields["name"]) == ("case", CATALYST + "CatalogDatabase", name)
        assert fields["locationUri"][0] == "uri" and fields["properties"][0] == "map"
        return Database(fields["description"], fields["locationUri"][1], fields["properties"][1])

    def create(self, name: str, description: str, properties: dict[str, str]) -> None:
        fields = {
            "name": name,
            "description": description,
            "locationUri": ["uri", f"dbfs:/user/hive/warehouse/{name}.db"],
            "properties": ["map", properties],
            "class": CATALYST + "CatalogDatabase",
        }
        assert "version" in self._put(name, "", {"database": ["case", fields]})

    def drop(self, name: str) -> None:
        assert "id" in self.ask("drop_database", database=name, cascade=False)

    def tables(self, database: str) -> list[str]:
        found: list[str] = self.ask("names", database=database, kind="table")["names"]
        return found

    def create_table(self, database: str, name: str, fields: dict[str, Any] | None = None) -> None:
        assert "version" in self._put(database, name, {"table": ["case", fields or {}], "partitions": []})

    def left_to_clear(self, database: str) -> set[str]:
        """The tables of a dropped database whose rows are there."""
        return {path.stem for path in (self._root / "dropped").glob(f"*/{database}/table/*.json")}

    def _put(self, database: str, name: str, tree: object) -> dict[str, Any]:
        text = base64.b64encode(zlib.compress(json.dumps(tree).encode())).decode()
        return self.ask("put", database=database, kind="table", name=name, version="", text=text)

    @staticmethod
    def _described(held: dict[str, str] | None) -> dict[str, Any]:
        assert held is not None
        found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(held["text"])))
        return found
