"""Descriptions of tables as Spark writes them, and as anybody might."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.features.catalog.tabledescriptions import TableDescription, described

CATALYST = "org.apache.spark.sql.catalyst."
NONE = ["none", None]


def field(name: str, kind: object, **metadata: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def described_table(*fields: dict[str, Any], kind: str = "MANAGED", **changes: Any) -> TableDescription:
    table = {
        "identifier": ["case", {"class": CATALYST + "TableIdentifier", "table": "t", "database": ["some", "d"], "catalog": NONE}],
        "tableType": ["case", {"class": CATALYST + "catalog.CatalogTableType", "name": kind}],
        "storage": [
            "case",
            {
                "class": CATALYST + "catalog.CatalogStorageFormat",
                "locationUri": ["some", ["uri", "dbfs:/t"]],
                "compressed": False,
            },
        ],
        "schema": ["type", json.dumps({"type": "struct", "fields": fields})],
        "provider": ["some", "parquet"],
        "partitionColumnNames": ["seq", ["p"]],
        "bucketSpec": NONE,
        "createTime": ["long", "1700000000000"],
        "properties": ["map", {"k": "v", "view.query.out.col.0": "a"}],
        "viewText": NONE,
        "comment": ["some", "of prices"],
        "class": CATALYST + "catalog.CatalogTable",
        **changes,
    }
    return described(json.dumps({"table": ["case", table], "partitions": []}).encode())


def test_a_table_is_what_its_description_says() -> None:
    found = described_table(field("a", "long", comment="which"), field("p", "integer"))
    assert (found.kind, found.format, found.location, found.comment) == ("MANAGED", "PARQUET", "dbfs:/t", "of prices")
    assert (found.properties, found.created_ms, found.view) == ({"k": "v"}, 1700000000000, "")
    a, p = found.columns
    assert (a.name, a.type_text, a.type_name, a.comment, a.partition) == ("a", "bigint", "LONG", "which", None)
    assert (p.type_text, p.type_name, p.partition) == ("int", "INT", 0)
    assert json.loads(p.type_json) == field("p", "integer")


def test_views_have_a_text_and_no_place() -> None:
    found = described_table(kind="VIEW", viewText=["some", "select 1"])
    assert (found.kind, found.view, found.location, found.format) == ("VIEW", "select 1", "", "")


def test_an_iceberg_table_whose_rows_go_with_it_is_managed() -> None:
    assert described_table(kind="EXTERNAL").kind == "EXTERNAL"
    assert described_table(kind="EXTERNAL", properties=["map", {"brickyard.managed": "true"}]).kind == "MANAGED"


ARRAY = {"type": "array", "elementType": "integer", "containsNull": True}


@pytest.mark.parametrize(
    ("kind", "metadata", "text", "name"),
    [
        ("string", {}, "string", "STRING"),
        ("string", {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}, "varchar(3)", "STRING"),
        ("string", {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}, "char(3)", "CHAR"),
        ("varchar(3)", {}, "varchar(3)", "STRING"),
        ("short", {}, "smallint", "SHORT"),
        ("void", {}, "void", "NULL"),
        ("timestamp_ntz", {}, "timestamp_ntz", "TIMESTAMP_NTZ"),
        ("decimal(10,2)", {}, "decimal(10,2)", "DECIMAL"),
        ("interval day to second", {}, "interval day to second", "INTERVAL"),
        (ARRAY, {}, "array<int>", "ARRAY"),
        ({"type": "map", "keyType": "string", "valueType": ARRAY}, {}, "map<string,array<int>>", "MAP"),
        ({"type": "struct", "fields": [field("x", "byte"), field("y", ARRAY)]}, {}, "struct<x:tinyint,y:array<int>>", "STRUCT"),
        ({"type": "udt", "class": "Point"}, {}, "udt", "USER_DEFINED_TYPE"),
    ],
)
def test_types_are_named_as_sql_and_the_api_name_them(kind: object, metadata: dict[str, str], text: str, name: str) -> None:
    (column,) = described_table(field("c", kind, **metadata)).columns
    assert (column.type_text, column.type_name) == (text, name)


def test_a_type_without_end_is_no_description() -> None:
    kind: object = "integer"
    for _ in range(400):
        kind = {"type": "array", "elementType": kind}
    assert described_table(field("c", kind)) == TableDescription()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
)


@given(
    st.sampled_from(
        ["tableType", "storage", "schema", "provider", "partitionColumnNames", "createTime", "properties", "comment"]
    ),
    _JSON,
    st.binary(max_size=40),
)
def test_whatever_it_is_there_is_an_answer(key: str, value: Any, text: bytes) -> None:
    assert isinstance(described_table(field("a", "long"), **{key: value}), TableDescription)
    assert described(text) == TableDescription()
