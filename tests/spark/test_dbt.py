"""dbt-databricks, unmodified, on a cluster with Delta Lake: a project that is built twice, and its docs. pip installs dbt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.spark.shared import Lent
from tests.spark.test_sql import connect, rows

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]

VERSIONS = ("dbt-databricks==1.10.19", "dbt-core==1.10.19")
FILES = {
    "dbt_project.yml": "name: shop\nprofile: shop\nversion: '1.0'\n",
    "seeds/orders.csv": "id,customer,amount\n1,ann,12.50\n2,bob,-3.25\n3,ann,7.00\n",
    "models/daily.sql": "select customer, sum(amount) as total from {{ ref('orders') }} group by customer",
    "models/customers.sql": """
        {{ config(materialized='table') }} select customer, cast(total as decimal(10,2)) as total from {{ ref('daily') }}
    """,
    "models/ledger.sql": """
        {{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
        select id, customer, cast(amount as decimal(10,2)) as amount from {{ ref('orders') }}
        {% if is_incremental() %} where id >= (select max(id) from {{ this }}) {% endif %}
    """,
    "snapshots/history.sql": """
        {% snapshot history %}
        {{ config(target_schema=target.schema, unique_key='customer', strategy='check', check_cols=['total']) }}
        select * from {{ ref('customers') }}
        {% endsnapshot %}
    """,
    "models/schema.yml": """
version: 2
models:
  - name: customers
    columns: [{name: customer, description: who, tests: [unique, not_null]}]
  - name: ledger
    columns: [{name: id, tests: [unique]}]
""",
}


@pytest.fixture(scope="module")
def dbt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command, in an environment of its own."""
    place = tmp_path_factory.mktemp("dbt") / "venv"
    venv.create(place, with_pip=True)
    subprocess.run([place / "bin" / "pip", "install", "--quiet", *VERSIONS], check=True, stdout=sys.stderr)
    return str(place / "bin" / "dbt")


def test_a_project_is_built_twice(lent_single: Lent, dbt: str, tmp_path: Path) -> None:
    schema = lent_single.schema()
    config = lent_single.user.w.config
    path = f"/sql/protocolv1/o/0/{lent_single.cluster_id}"
    target = {
        "type": "databricks", "host": str(config.host).partition("//")[2], "http_path": path, "token": config.token,
        "catalog": "main", "schema": schema, "threads": 2, "connection_parameters": {"_connection_uri": f"{config.host}{path}"},
    }  # fmt: skip
    profile = {"shop": {"target": "dev", "outputs": {"dev": target}}}
    for name, content in {**FILES, "profiles.yml": json.dumps(profile)}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)

    def run(*command: str) -> None:
        environment = {**os.environ, "DBT_PROFILES_DIR": str(tmp_path), "DO_NOT_TRACK": "1"}
        done = subprocess.run([dbt, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout

    run("build")
    (tmp_path / "seeds" / "orders.csv").write_text("id,customer,amount\n1,ann,12.50\n2,bob,-3.25\n3,ann,8.00\n4,cy,1.00\n")
    run("build")
    run("docs", "generate")
    with connect(lent_single.user, lent_single.cluster_id, schema=schema) as connection, connection.cursor() as cursor:
        ledger = rows(cursor, "SELECT id, CAST(amount AS STRING) FROM ledger ORDER BY id")
        assert ledger == [(1, "12.50"), (2, "-3.25"), (3, "8.00"), (4, "1.00")]
        history = rows(cursor, "SELECT customer, dbt_valid_to IS NULL FROM history ORDER BY customer, dbt_valid_to IS NULL")
        assert history == [("ann", False), ("ann", True), ("bob", True), ("cy", True)]
    catalog = json.loads((tmp_path / "target" / "catalog.json").read_text())
    assert list(catalog["nodes"]["model.shop.customers"]["columns"]) == ["customer", "total"]
