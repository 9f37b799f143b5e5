"""SQL clients from the package index, unmodified, each in an environment of its own, against a SQL warehouse on real Spark."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brickyard.sandbox import launcher
from tests.spark.layers import with_layers
from tests.spark.live import NODE, Live
from tests.support.environments import environment_with
from tests.support.runtimes import SPARK_4

pytestmark = [
    pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800),
    pytest.mark.skipif(launcher.probe().kind != "namespaces", reason="users are kept apart in cells, which take namespaces"),
]  # fmt: skip
RUN_S = 900
DBT = ("dbt-databricks==1.11.*", "dbt-core==1.11.*")  # dbt-core 1.12 fetches a part from outside of the package index


class Warehouse(NamedTuple):
    """One that runs, and what clients are told of it."""

    host: str
    token: str
    warehouse_id: str

    @property
    def path(self) -> str:
        return f"/sql/1.0/warehouses/{self.warehouse_id}"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "DATABRICKS_HOST": self.host,
            "DATABRICKS_TOKEN": self.token,
            "WAREHOUSE": self.warehouse_id,
            "HTTP_PATH": self.path,
        }


@pytest.fixture(scope="module")
def warehouse(live: Live) -> Iterator[Warehouse]:
    with_layers(SPARK_4)
    made = live.w.api_client.do(
        "POST", "/api/2.0/sql/warehouses", body={"name": "clients", "cluster_size": "2X-Small", "node_type_id": NODE}
    )
    assert isinstance(made, dict)
    warehouse_id = str(made["id"])
    yield Warehouse(str(live.w.config.host).rstrip("/"), str(live.w.config.token), warehouse_id)
    live.w.warehouses.delete(warehouse_id)


def ran(python: Path, code: str, warehouse: Warehouse) -> Any:
    """What a program of the client's environment printed last, as JSON."""
    done = subprocess.run(
        [str(python / "python"), "-c", code],
        env=_environment(warehouse),
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def _environment(warehouse: Warehouse, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DATABRICKS_")}
    return {**kept, **warehouse.variables, **more}


CONNECTOR = """
import datetime, decimal, json, os
from databricks import sql
host, path = os.environ["DATABRICKS_HOST"], os.environ["HTTP_PATH"]
more = {"_connection_uri": host + path, "enable_telemetry": False}
with sql.connect(
    host.partition("//")[2], path, access_token=os.environ["DATABRICKS_TOKEN"], **more
) as connection, connection.cursor() as cursor:
    cursor.execute("SELECT :n + 1 a, CAST(-2.50 AS DECIMAL(5,2)) d, DATE'2024-01-02' t, array(1, 2) l", {"n": 41})
    row = cursor.fetchone()
    found = [row.a, row.d == decimal.Decimal("-2.50"), row.t == datetime.date(2024, 1, 2), [int(each) for each in row.l]]
    cursor.execute("CREATE OR REPLACE TABLE of_connector (id BIGINT COMMENT 'key', v STRING) USING delta")
    cursor.execute("INSERT INTO of_connector VALUES (?, ?), (2, NULL)", [1, "it's"])
    cursor.execute("SELECT id, v FROM of_connector ORDER BY id")
    found.append([list(each) for each in cursor.fetchall()])
    cursor.columns(catalog_name="main", schema_name="default", table_name="of\\\\_connector")
    found.append([each.COLUMN_NAME for each in cursor.fetchall()])
    cursor.execute("SELECT id, id * 2 b FROM range(300000)")
    found.append(sum(cursor.fetchall_arrow().column("b").to_pylist()))
    try:
        cursor.execute("SELECT * FROM nowhere")
    except sql.exc.ServerOperationError as error:
        found.append("TABLE_OR_VIEW_NOT_FOUND" in str(error))
print(json.dumps(found))
"""


def test_databricks_sql_connector(warehouse: Warehouse, tmp_path: Path) -> None:
    python = environment_with(tmp_path / "client", "databricks-sql-connector[pyarrow]")
    assert ran(python, CONNECTOR, warehouse) == [
        42, True, True, [1, 2], [[1, "it's"], [2, None]], ["id", "v"], 300_000 * 299_999, True,
    ]  # fmt: skip


PYHIVE = """
import base64, json, os
from pyhive import hive
from thrift.transport.THttpClient import THttpClient
transport = THttpClient(os.environ["DATABRICKS_HOST"] + os.environ["HTTP_PATH"])
login = base64.b64encode(f"token:{os.environ['DATABRICKS_TOKEN']}".encode()).decode()
transport.setCustomHeaders({"Authorization": f"Basic {login}"})
with hive.connect(thrift_transport=transport) as connection, connection.cursor() as cursor:
    cursor.execute("SELECT %s a, CAST(-2.50 AS DECIMAL(5,2)) d, true b, CAST(NULL AS INT) n", ("it's",))
    found = [[str(cell) for cell in cursor.fetchone()]]
    cursor.execute("SELECT id FROM range(150000)")
    found.append(sum(row[0] for row in cursor.fetchall()))
    try:
        cursor.execute("SELECT * FROM nowhere")
    except hive.OperationalError as error:
        found.append("TABLE_OR_VIEW_NOT_FOUND" in str(error))
print(json.dumps(found))
"""


def test_pyhive(warehouse: Warehouse, tmp_path: Path) -> None:
    python = environment_with(tmp_path / "client", "PyHive[hive_pure_sasl]")
    assert ran(python, PYHIVE, warehouse) == [["it's", "-2.50", "True", "None"], 75_000 * 149_999, True]


SQLALCHEMY = """
import decimal, json, os
from sqlalchemy import Column, Integer, MetaData, Numeric, String, Table, create_engine, inspect, select
host, path = os.environ["DATABRICKS_HOST"], os.environ["HTTP_PATH"]
engine = create_engine(
    f"databricks://token:{os.environ['DATABRICKS_TOKEN']}@{host.partition('//')[2]}?http_path={path}&catalog=main&schema=default",
    connect_args={"_connection_uri": host + path, "enable_telemetry": False},
)
metadata = MetaData()
made = Table("of_sqlalchemy", metadata, Column("id", Integer), Column("name", String(20)), Column("total", Numeric(8, 2)))
metadata.create_all(engine)
with engine.begin() as connection:
    values = ("ada", decimal.Decimal("-1.50")), (None, 3)
    connection.execute(made.insert(), [{"id": at + 1, "name": name, "total": total} for at, (name, total) in enumerate(values)])
    rows = connection.execute(select(made).where(made.c.id < 3).order_by(made.c.id)).fetchall()
seen = inspect(engine)
reflected = Table("of_sqlalchemy", MetaData(), autoload_with=engine)
found = [[[str(cell) for cell in row] for row in rows], "of_sqlalchemy" in seen.get_table_names()]
found.append([each.name for each in reflected.columns])
metadata.drop_all(engine)
found.append("of_sqlalchemy" in inspect(engine).get_table_names())
engine.dispose()
print(json.dumps(found))
"""


def test_databricks_sqlalchemy(warehouse: Warehouse, tmp_path: Path) -> None:
    python = environment_with(tmp_path / "client", "databricks-sqlalchemy", "databricks-sql-connector[pyarrow]")
    assert ran(python, SQLALCHEMY, warehouse) == [
        [["1", "ada", "-1.50"], ["2", "None", "3.00"]], True, ["id", "name", "total"], False,
    ]  # fmt: skip


LSQL = """
import dataclasses, json, os
from databricks.labs.lsql.backends import StatementExecutionBackend
from databricks.labs.lsql.core import StatementExecutionExt
from databricks.sdk import WorkspaceClient
w = WorkspaceClient()
@dataclasses.dataclass
class Row:
    first: str
    second: bool
    third: int
backend = StatementExecutionBackend(w, os.environ["WAREHOUSE"])
backend.execute("CREATE SCHEMA IF NOT EXISTS main.of_lsql")
backend.save_table("main.of_lsql.saved", [Row("a b", True, 1), Row("b", False, -2)], Row, mode="overwrite")
found = [[list(row) for row in backend.fetch("SELECT * FROM main.of_lsql.saved ORDER BY third")]]
large = StatementExecutionExt(w, warehouse_id=os.environ["WAREHOUSE"]).fetch_all("SELECT id FROM range(200000)")
found.append(sum(row.id for row in large))
print(json.dumps(found))
"""


def test_databricks_labs_lsql(warehouse: Warehouse, tmp_path: Path) -> None:
    python = environment_with(tmp_path / "client", "databricks-labs-lsql")
    assert ran(python, LSQL, warehouse) == [[["b", False, -2], ["a b", True, 1]], 100_000 * 199_999]


PROJECT = {
    "dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\n",
    "seeds/raw.csv": "id,name,at\n1,ada,2024-01-01\n2,bob,2024-01-02\n",
    "models/seen.sql": "{{ config(materialized='view') }}\nselect id, upper(name) as name, at from {{ ref('raw') }}\n",
    "models/kept.sql": (
        "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}\n"
        "select id, name, {{ var('run') }} as run from {{ ref('seen') }}\n"
        "{% if is_incremental() %} where id > 1 union all select 3, 'NEW', {{ var('run') }} {% endif %}\n"
    ),
    "models/schema.yml": (
        "models:\n  - name: kept\n    columns:\n      - name: id\n        data_tests: [unique, not_null]\n"
        "  - name: seen\n    columns:\n      - name: name\n        data_tests: [not_null]\n"
    ),
    "snapshots/kept.sql": (
        "{% snapshot history %}\n{{ config(target_schema='shop', unique_key='id', strategy='check', check_cols=['run']) }}\n"
        "select * from {{ ref('kept') }}\n{% endsnapshot %}\n"
    ),
}
READ = """
import json, os
from databricks import sql
host, path = os.environ["DATABRICKS_HOST"], os.environ["HTTP_PATH"]
more = {"_connection_uri": host + path, "enable_telemetry": False}
with sql.connect(
    host.partition("//")[2], path, access_token=os.environ["DATABRICKS_TOKEN"], **more
) as connection, connection.cursor() as cursor:
    found = []
    for statement in (
        "SELECT id, name, run FROM main.shop.kept ORDER BY id",
        "SELECT id, run, dbt_valid_to IS NULL FROM main.shop.history ORDER BY id, run",
    ):
        cursor.execute(statement)
        found.append([list(row) for row in cursor.fetchall()])
print(json.dumps(found))
"""


def test_dbt_builds_a_project_twice(warehouse: Warehouse, tmp_path: Path) -> None:
    """A seed, a view, an incremental model that merges, a snapshot, and tests."""
    bin_dir = environment_with(tmp_path / "client", *DBT)
    project = tmp_path / "project"
    for name, text in PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    output = {
        "type": "databricks", "host": warehouse.host.partition("//")[2], "http_path": warehouse.path, "token": warehouse.token,
        "catalog": "main", "schema": "shop", "threads": 1,
        "connection_parameters": {"_connection_uri": warehouse.host + warehouse.path, "enable_telemetry": False},
    }  # fmt: skip
    (project / "profiles.yml").write_text(json.dumps({"shop": {"target": "dev", "outputs": {"dev": output}}}))
    for run in (1, 2):
        command = [str(bin_dir / "dbt"), "build", "--vars", json.dumps({"run": run}), "--no-use-colors"]
        variables = _environment(warehouse, DBT_SEND_ANONYMOUS_USAGE_STATS="false")
        done = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False, timeout=RUN_S)
        assert done.returncode == 0, done.stdout[-6000:]
        results = json.loads((project / "target" / "run_results.json").read_text())["results"]
        assert {each["status"] for each in results} <= {"success", "pass"}
        assert len(results) == 7
    kept, history = ran(bin_dir, READ, warehouse)
    assert kept == [[1, "ADA", 1], [2, "BOB", 2], [3, "NEW", 2]]
    assert history == [[1, 1, True], [2, 1, False], [2, 2, True], [3, 2, True]]
