"""Schemas of Unity Catalog's API and databases of Spark are the same ones, on a cluster that runs."""

from __future__ import annotations

import json
import secrets

import pytest
from databricks.sdk.errors import BadRequest, NotFound
from databricks.sdk.service.catalog import DataSourceFormat, TableType

from tests.spark.shared import Lent

pytestmark = pytest.mark.spark


@pytest.mark.any_runtime
def test_spark_and_the_api_see_each_others_schemas(lent_single: Lent) -> None:
    w, name = lent_single.user.w, f"api-{secrets.token_hex(4)}"

    def spark(*statements: str) -> list[list[str]]:
        """The rows of the last one."""
        lines = [f"rows = spark.sql({each!r}).collect()" for each in statements]
        lines.append("print(__import__('json').dumps([list(row) for row in rows], default=str))")
        answer = lent_single.run("\n".join(lines))
        rows: list[list[str]] = json.loads(answer.strip().splitlines()[-1])
        return rows

    w.schemas.create(name, "main", comment="of the API", properties={"team": "data"})
    assert [f"`{name}`"] in spark("show databases")
    about = dict(spark(f"describe database extended `{name}`"))
    assert about["Comment"] == "of the API" and about["Location"].endswith(f"/{name}.db") and "(team,data)" in about["Properties"]
    rows = spark(
        f"alter database `{name}` set dbproperties ('stage' = 'raw')",
        f"use `{name}`",
        "create table t (id bigint comment 'which', price decimal(10,2), tags map<string,array<int>>, code varchar(3), "
        "day date not null) using parquet partitioned by (day) comment 'prices' tblproperties ('k' = 'v')",
        "insert into t values (1, 1.5, map('a', array(1)), 'abc', date'2026-01-02')",
        "create view v as select id from t",
        "select id, code from v join t using (id)",
    )
    assert rows == [[1, "abc"]]
    schema = w.schemas.get(f"main.{name}")
    assert schema.properties == {"team": "data", "stage": "raw"} and schema.owner == w.current_user.me().user_name
    assert w.schemas.update(f"main.{name}", comment="changed").properties == schema.properties
    assert dict(spark(f"describe database `{name}`"))["Comment"] == "changed"

    listed = {each.name: each for each in w.tables.list("main", name)}
    assert {key: each.table_type for key, each in listed.items()} == {"t": TableType.MANAGED, "v": TableType.VIEW}
    table = w.tables.get(f"main.{name}.t")
    assert table == listed["t"] and (table.comment, table.properties, table.data_source_format) == (
        "prices",
        {"k": "v"},
        DataSourceFormat.PARQUET,
    )
    assert (table.storage_location or "").startswith(f"{schema.storage_location}/") and table.created_at
    columns = [(each.name, each.type_text, each.type_name and each.type_name.value) for each in table.columns or ()]
    assert columns == [
        ("id", "bigint", "LONG"),
        ("price", "decimal(10,2)", "DECIMAL"),
        ("tags", "map<string,array<int>>", "MAP"),
        ("code", "varchar(3)", "STRING"),
        ("day", "date", "DATE"),
    ]
    assert table.columns and (table.columns[0].comment, table.columns[4].partition_index) == ("which", 0)
    assert listed["v"].view_definition == "select id from t"
    assert w.tables.exists(f"main.{name}.T").table_exists and not w.tables.exists(f"main.{name}.x").table_exists

    with pytest.raises(BadRequest, match=r"2 tables\(s\)"):
        w.schemas.delete(f"main.{name}")
    w.schemas.delete(f"main.{name}", force=True)
    assert [f"`{name}`"] not in spark("show databases")
    other = lent_single.schema()
    assert w.schemas.get(f"main.{other}").name == other
    spark(f"create table {other}.kept (id int)")
    with pytest.raises(BadRequest):
        w.schemas.create(other, "main")
    spark(f"drop database {other} cascade", f"create database {other}")
    assert list(w.tables.list("main", other)) == []
    w.schemas.delete(f"main.{other}")
    with pytest.raises(NotFound):
        w.schemas.get(f"main.{other}")
    spark(f"create database {other}")
