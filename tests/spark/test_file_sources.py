"""Databricks' ways to load files: `read_files` works, and COPY INTO and Auto Loader are refused with the way that does."""

from __future__ import annotations

import json

import pytest
from databricks.sdk.service.compute import Kind, State

from tests.spark.live import Live
from tests.spark.shared import Lent
from tests.support.runtimes import NEWEST, SPARK_3

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

READ = """
import json, os
top = "TOP"
os.makedirs(f"/dbfs{top}/csv/day=1"); os.makedirs(f"/dbfs{top}/json")
open(f"/dbfs{top}/csv/day=1/a.csv", "w").write("id,name\\n1,x\\n2,y\\n")
open(f"/dbfs{top}/json/a.json", "w").write('{"id": 3}\\n{"id": 4}\\n')
open(f"/dbfs{top}/json/b.txt", "w").write("neither")
def rows(arguments):
    found = spark.sql(f"select * from read_files({arguments})")
    return [found.dtypes, sorted([str(each) for each in row] for row in found.collect())]
def refused(statement):
    try:
        statement() if callable(statement) else spark.sql(statement).collect()
        return ["nothing", ""]
    except Exception as error:
        return [type(error).__name__, str(error)]
read = [
    rows(f"'dbfs:{top}/csv', format => 'csv', header => true"),
    rows(f"'dbfs:{top}/csv', header => 'true', schema => 'id STRING, name STRING'"),
    rows(f"path => '/dbfs{top}/json', format => 'json', fileNamePattern => '*.json'"),
    rows(f"'dbfs:{top}/json/a.json'"),
]
spark.sql(f"create or replace temporary view loaded as select id from read_files('dbfs:{top}/json/a.json') where id > 3")
read.append(spark.table("loaded").count())
said = [
    refused(f"select * from read_files('dbfs:{top}/csv', format => 'csv', schemaHints => 'id INT')"),
    refused("select * from read_files()"),
    refused("-- load\\ncopy into t from 'dbfs:/x' fileformat = csv"),
    refused("copy this"),
    refused(lambda: spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("dbfs:/x")),
]
print(json.dumps([read, said]))
"""
ROWS = [
    [[["id", "int"], ["name", "string"], ["day", "int"]], [["1", "x", "1"], ["2", "y", "1"]]],
    [[["id", "string"], ["name", "string"], ["day", "int"]], [["1", "x", "1"], ["2", "y", "1"]]],
    [[["id", "bigint"]], [["3"], ["4"]]],
    [[["id", "bigint"]], [["3"], ["4"]]],
    1,
]


def check(answer: str) -> None:
    read, said = json.loads(answer)
    assert read == ROWS
    hints, path, copied, unknown, stream = said
    assert "schemahints" in hints[1] and "read_files" in path[1]
    assert "availableNow" in copied[1] and "PARSE_SYNTAX_ERROR" in unknown[1]
    assert "cloudFiles.format" in stream[1], stream


def test_files_are_read_by_function_and_what_is_absent_says_what_to_do(lent_single: Lent) -> None:
    check(lent_single.run(READ.replace("TOP", lent_single.directory)))


@pytest.mark.extended
@pytest.mark.parametrize("runtime", [SPARK_3, NEWEST])
def test_other_lines_of_spark_do_the_same(live: Live, runtime: str) -> None:
    cluster = live.create(runtime[:4], runtime, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
    live.wait(cluster, State.RUNNING)
    check(live.run(cluster, READ.replace("TOP", f"/sources-{runtime[:4]}")))
