"""What SQL clients read of the catalog on real Spark: metadata calls and information_schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from databricks import sql

from tests.spark.shared import Lent

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def cursor(lent_single: Lent) -> Iterator[Any]:
    path = f"/sql/protocolv1/o/0/{lent_single.cluster_id}"
    config = lent_single.user.w.config
    with (
        sql.connect(
            "127.0.0.1", path, access_token=config.token, _connection_uri=f"{config.host}{path}", enable_telemetry=False
        ) as connection,
        connection.cursor() as made,
    ):
        yield made


def rows(cursor: Any) -> list[dict[str, Any]]:
    return [each.asDict() for each in cursor.fetchall()]


def make(cursor: Any, schema: str) -> None:
    for statement in (
        f"CREATE TABLE {schema}.orders (id BIGINT COMMENT 'its number', amount DECIMAL(10,2) DEFAULT 0.5, "
        "code VARCHAR(7), tags ARRAY<STRING>, day DATE) USING parquet PARTITIONED BY (day) COMMENT 'what was ordered'",
        f"CREATE VIEW {schema}.large AS SELECT id, amount FROM {schema}.orders WHERE amount > 10",  # noqa: S608 - names of our own
        f"CREATE TABLE {schema}.odd_name (`a 'b` INT, `ä ☃` STRING) USING parquet",
        f"CREATE TABLE {schema}.oddxname (a INT) USING parquet",
        f"CREATE FUNCTION {schema}.area(x DOUBLE) RETURNS DOUBLE RETURN x * x",
        "CREATE TEMPORARY VIEW mine AS SELECT 1 AS one",
    ):
        cursor.execute(statement)


def test_metadata_calls_describe_what_is_there(cursor: Any, lent_single: Lent) -> None:
    schema = lent_single.schema()
    make(cursor, schema)
    assert [row["TABLE_CAT"] for row in rows(cursor.catalogs())] == ["hive_metastore", "main", "system"]
    assert [row["TABLE_SCHEM"] for row in rows(cursor.schemas(schema_name=schema))] == [schema]
    found = rows(cursor.tables(catalog_name="main", schema_name=schema))
    assert sorted((row["TABLE_NAME"], row["TABLE_TYPE"], row["REMARKS"]) for row in found) == [
        ("large", "VIEW", ""), ("odd_name", "TABLE", ""), ("oddxname", "TABLE", ""),
        ("orders", "TABLE", "what was ordered"),
    ]  # fmt: skip
    assert [row["TABLE_NAME"] for row in rows(cursor.tables(schema_name=schema, table_name=r"odd\_name"))] == ["odd_name"]
    assert [row["TABLE_NAME"] for row in rows(cursor.tables(schema_name=schema, table_name="odd_name"))] == [
        "odd_name",
        "oddxname",
    ]
    assert [row["COLUMN_NAME"] for row in rows(cursor.columns(schema_name=schema, table_name=r"odd\_name"))] == ["a 'b", "ä ☃"]
    assert [row["TABLE_NAME"] for row in rows(cursor.tables(table_name="mine"))] == ["mine"]
    columns = rows(cursor.columns(schema_name=schema, table_name="orders"))
    fields = ("COLUMN_NAME", "TYPE_NAME", "NULLABLE", "REMARKS", "COLUMN_DEF", "ORDINAL_POSITION")
    assert [tuple(row[field] for field in fields) for row in columns] == [
        ("id", "BIGINT", 1, "its number", None, 0), ("amount", "DECIMAL(10,2)", 1, "", "0.5", 1),
        ("code", "VARCHAR(7)", 1, "", None, 2), ("tags", "ARRAY<STRING>", 1, "", None, 3), ("day", "DATE", 1, "", None, 4),
    ]  # fmt: skip
    assert [row["COLUMN_NAME"] for row in rows(cursor.columns(table_name="mine"))] == ["one"]
    assert [row["TABLE_NAME"] for row in rows(cursor.tables(catalog_name="system", table_name="catalogs"))] == ["catalogs"]


QUESTIONS = (
    "SELECT table_name, table_type, data_source_format, comment FROM system.information_schema.tables "
    "WHERE table_schema = '{schema}' ORDER BY 1",
    "SELECT column_name, full_data_type, is_nullable, partition_ordinal_position FROM main.information_schema.columns "
    "WHERE table_schema = '{schema}' AND table_name = 'orders' ORDER BY ordinal_position",
    "SELECT table_name FROM hive_metastore.information_schema.views WHERE (table_schema = '{schema}' AND table_name = 'large') "
    "OR (table_schema = '{schema}' AND table_name = 'orders')",
    "SELECT routine_name FROM information_schema.routines WHERE routine_schema = '{schema}'",
    "SELECT schema_name FROM system.information_schema.schemata WHERE schema_name IN ('{schema}', 'nowhere')",
    "SELECT * FROM main.information_schema.table_constraints",
)
ANSWERS = [
    [["large", "VIEW", None, None], ["odd_name", "MANAGED", "PARQUET", None],
     ["oddxname", "MANAGED", "PARQUET", None],
     ["orders", "MANAGED", "PARQUET", "what was ordered"]],
    [["id", "bigint", "YES", None], ["amount", "decimal(10,2)", "YES", None], ["code", "varchar(7)", "YES", None],
     ["tags", "array<string>", "YES", None], ["day", "date", "YES", 0]],
    [["large"]],
    [["area"]],
]  # fmt: skip


def test_information_schema_is_the_same_for_notebooks_and_sql_clients(cursor: Any, lent_single: Lent) -> None:
    schema = lent_single.schema()
    make(cursor, schema)
    questions = [each.format(schema=schema) for each in QUESTIONS]
    expected = [*ANSWERS, [[schema]], []]
    assert [[list(row) for row in cursor.execute(each).fetchall()] for each in questions] == expected
    code = f"import json; print(json.dumps([[list(row) for row in spark.sql(each).collect()] for each in {questions!r}]))"
    assert json.loads(lent_single.run(code)) == expected
    for statement in (
        "CREATE TABLE main.information_schema.mine (a INT)", "DROP VIEW main.information_schema.tables",
        "DROP SCHEMA main.information_schema CASCADE", "DROP TABLE system.information_schema.tables",
        "INSERT INTO system.information_schema.catalogs SELECT * FROM system.information_schema.catalogs",
    ):  # fmt: skip
        with pytest.raises(sql.exc.Error):
            cursor.execute(statement)
    listed = [row[1] for row in cursor.execute("SHOW TABLES IN main.information_schema").fetchall()]
    assert {"catalogs", "schemata", "tables", "columns", "views", "table_privileges"} <= set(listed)


def test_a_session_may_begin_in_a_schema_that_it_creates(lent_single: Lent) -> None:
    path = f"/sql/protocolv1/o/0/{lent_single.cluster_id}"
    config = lent_single.user.w.config
    later = lent_single.schema() + "_later"
    with (
        sql.connect(
            "127.0.0.1", path, access_token=config.token, _connection_uri=f"{config.host}{path}", enable_telemetry=False,
            catalog="main", schema=later,
        ) as connection,
        connection.cursor() as cursor,
    ):  # fmt: skip
        cursor.execute(f"CREATE SCHEMA {later}")
        try:
            assert list(cursor.execute("SELECT current_catalog(), current_schema()").fetchone()) == ["main", later]
        finally:
            cursor.execute(f"DROP SCHEMA {later} CASCADE")
