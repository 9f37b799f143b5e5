"""What SQL clients are told of catalogs, schemas, tables and columns, with answers of Spark that are given."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any, cast

import pyarrow
import pyarrow.ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.gateway.sql.driver import Chunk, Driver, Login, Query, Target
from brickyard.gateway.sql.failures import SqlFailed
from brickyard.gateway.sql.metadata import COLUMNS, TABLES, Metadata, Pattern, Table, quoted

TARGET = Target("c", "session", "ann", Login("Bearer x", "127.0.0.1"))
NAME = st.text(alphabet="abcXYZ%_\\*.`' -ä☃", min_size=1, max_size=8)


def stream(**columns: list[Any]) -> bytes:
    table = pyarrow.table({name: pyarrow.array(values, pyarrow.string()) for name, values in columns.items()})
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


class GivenAnswers:
    """Answers statements by the words that they begin with. What has none fails as Spark fails for a missing table."""

    def __init__(self, **answers: dict[str, list[Any]] | SqlFailed) -> None:
        self.answers = {name.replace("_", " "): answer for name, answer in answers.items()}
        self.asked: list[str] = []

    async def execute(self, _target: Target, _operation_id: str, query: Query) -> AsyncIterator[Chunk]:
        self.asked.append(query.text)
        answer = next((each for start, each in self.answers.items() if query.text.startswith(start)), None)
        if answer is None:
            raise SqlFailed("[TABLE_OR_VIEW_NOT_FOUND] The table or view cannot be found. SQLSTATE: 42P01", sql_state="42P01")
        if isinstance(answer, SqlFailed):
            raise answer
        yield Chunk(len(next(iter(answer.values()))), stream(**answer))


def metadata(driver: GivenAnswers) -> Metadata:
    return Metadata(cast("Driver", driver))


def named(table: Table) -> list[dict[str, Any]]:
    return [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]


NO_VIEWS: dict[str, list[Any]] = {"namespace": [], "tableName": [], "isTemporary": []}
INFORMATION: dict[str, list[Any]] = {
    "table_schema": ["shop", "shop", "shop_b"],
    "table_name": ["orders", "v", "x"],
    "table_type": ["MANAGED", "VIEW", "EXTERNAL"],
    "comment": ["what was ordered", None, None],
}


@given(NAME)
def test_a_name_whose_special_characters_are_escaped_is_exact(name: str) -> None:
    escaped = "".join(f"\\{each}" if each in "\\%_" else each for each in name)
    pattern = Pattern(escaped)
    if escaped == "*":
        assert pattern.any
    else:
        assert pattern.exact == name
        assert pattern.matches(name)
        assert not pattern.matches(name + "x")


@given(NAME, NAME)
def test_percent_and_underscore_stand_for_what_they_do_in_jdbc(before: str, after: str) -> None:
    start = "".join(f"\\{each}" if each in "\\%_" else each for each in before)
    assert Pattern(start + "%").matches(before + after)
    assert Pattern(start + "_").matches(before + after[:1])
    assert not Pattern(start + "%").exact


@given(NAME)
def test_a_quoted_name_is_one_name_to_spark(name: str) -> None:
    text = quoted(name)
    assert text[0] == text[-1] == "`"
    assert text[1:-1].replace("``", "") == name.replace("`", "")


def test_tables_of_the_workspace_are_read_with_one_statement() -> None:
    driver = GivenAnswers(SELECT=INFORMATION)
    found = asyncio.run(metadata(driver).tables(TARGET, "main", "shop", "%", None))
    assert [row[:5] for row in found.rows] == [
        ("main", "shop", "orders", "TABLE", "what was ordered"), ("main", "shop", "v", "VIEW", "")
    ]  # fmt: skip
    assert len(driver.asked) == 1
    assert driver.asked[0].endswith(" WHERE table_schema = 'shop'")
    assert found.columns == TABLES
    assert [row["TABLE_NAME"] for row in named(asyncio.run(metadata(driver).tables(TARGET, None, "shop%", "%", ["TABLE"])))] == [
        "orders", "x"
    ]  # fmt: skip


def test_names_with_quotes_stay_names() -> None:
    driver = GivenAnswers(SELECT=INFORMATION)
    asyncio.run(metadata(driver).tables(TARGET, "main", "it's \\\\ OR 1=1", "%", None))
    assert driver.asked[0].endswith(r" WHERE table_schema = 'it\'s \\ or 1=1'")


def test_temporary_views_come_with_all_schemas() -> None:
    listed: dict[str, list[Any]] = {"namespace": ["default", ""], "tableName": ["orders", "mine"], "isTemporary": [None, "true"]}
    driver = GivenAnswers(SELECT=INFORMATION, SHOW_TABLES_IN=listed)
    found = named(asyncio.run(metadata(driver).tables(TARGET, None, None, "mine", None)))
    assert [(row["TABLE_CAT"], row["TABLE_SCHEM"], row["TABLE_NAME"]) for row in found] == [("", "", "mine")]


def test_columns_say_type_size_comment_default_and_whether_null_is_allowed() -> None:
    columns: dict[str, list[Any]] = {
        "table_schema": ["s"] * 4,
        "table_name": ["t"] * 4,
        "ordinal_position": ["1", "0", "2", "3"],
        "column_name": ["amount", "id", "code", "parts"],
        "full_data_type": ["decimal(10,2)", "bigint", "varchar(7)", "array<struct<a:int,b:decimal(3,1)>>"],
        "comment": [None, "number", None, None],
        "is_nullable": ["YES", "NO", "YES", "YES"],
        "column_default": ["0.00", None, None, None],
    }
    driver = GivenAnswers(SELECT=columns)
    found = asyncio.run(metadata(driver).columns(TARGET, "main", "s", "t", None))
    assert found.columns == COLUMNS
    fields = ("COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "REMARKS", "COLUMN_DEF")
    assert [tuple(row[field] for field in fields) for row in named(found)] == [
        ("id", -5, "BIGINT", 19, 0, 0, "number", None),
        ("amount", 3, "DECIMAL(10,2)", 10, 2, 1, "", "0.00"),
        ("code", 12, "VARCHAR(7)", 7, None, 1, "", None),
        ("parts", 2003, "ARRAY<STRUCT<A:INT,B:DECIMAL(3,1)>>", None, None, 1, "", None),
    ]
    assert [row["COLUMN_NAME"] for row in named(asyncio.run(metadata(driver).columns(TARGET, "main", "s", "t", "a%")))] == [
        "amount"
    ]


def test_another_catalog_is_read_schema_by_schema() -> None:
    driver = GivenAnswers(
        SHOW_SCHEMAS_IN={"namespace": ["a", "b"]},
        SHOW_TABLES_IN={"namespace": ["a"], "tableName": ["t"], "isTemporary": [None]},
        SHOW_VIEWS=SqlFailed("[MISSING_CATALOG_ABILITY.VIEWS] no views"),
        DESCRIBE={"col_name": ["id", "", "# Partitioning"], "data_type": ["int", "", ""], "comment": [None, "", ""]},
    )
    tables = named(asyncio.run(metadata(driver).tables(TARGET, "lake", "%", "t", None)))
    assert [(row["TABLE_CAT"], row["TABLE_SCHEM"], row["TABLE_TYPE"]) for row in tables] == [
        ("lake", "a", "TABLE"), ("lake", "b", "TABLE")
    ]  # fmt: skip
    columns = named(asyncio.run(metadata(driver).columns(TARGET, "lake", "a", "t", None)))
    assert [row["COLUMN_NAME"] for row in columns] == ["id"]
    assert "SHOW TABLES IN `lake`.`a`" in driver.asked


def test_what_does_not_exist_has_no_rows_and_a_failure_is_one() -> None:
    nothing = metadata(GivenAnswers())
    assert not asyncio.run(nothing.schemas(TARGET, "nowhere", None)).rows
    assert not asyncio.run(nothing.tables(TARGET, "nowhere", "s", "t", None)).rows
    broken = metadata(GivenAnswers(SELECT=SqlFailed("[INTERNAL_ERROR] Storage is away. SQLSTATE: XX000")))
    with pytest.raises(SqlFailed):
        asyncio.run(broken.tables(TARGET, "main", "s", "t", None))


def test_the_catalogs_are_those_that_databricks_has() -> None:
    driver = GivenAnswers(SHOW_CATALOGS={"catalog": ["spark_catalog", "system", "main", "hive_metastore"]})
    assert asyncio.run(metadata(driver).catalogs(TARGET)).rows == [("hive_metastore",), ("main",), ("system",)]
    older = GivenAnswers(SHOW_CATALOGS={"catalog": ["spark_catalog"]})
    assert asyncio.run(metadata(older).catalogs(TARGET)).rows == [("spark_catalog",)]


def test_functions_are_sparks_and_those_of_schemas() -> None:
    driver = GivenAnswers(
        SHOW_SYSTEM={"function": ["abs", "acos"]},
        SHOW_SCHEMAS_IN={"namespace": ["a", "b"]},
        SHOW_USER={"function": ["spark_catalog.a.area"]},
    )
    found = named(asyncio.run(metadata(driver).functions(TARGET, "main", "a", "a%")))
    assert [(row["FUNCTION_SCHEM"], row["FUNCTION_NAME"], row["SPECIFIC_NAME"]) for row in found] == [
        (None, "abs", "abs"), (None, "acos", "acos"), ("a", "area", "main.a.area")
    ]  # fmt: skip
