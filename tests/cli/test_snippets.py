"""Every snippet of every page is typed in, in the order in which a reader meets it, or stands below with a reason.

Here: those that need no Spark, on the simulated provider. tests/spark/test_snippets.py has the rest.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient

from brickyard.config.load import load
from brickyard.domain.prices import parse_prices
from brickyard.runtime import catalogue
from brickyard.server.datadir import Workspace
from tests.support.snippets import PAGES, PICTURES, ROOT, Block, Reader, blocks, home_environment, parse, quick

# On real Spark: their answers are computed.
OWN_CLUSTER = "needs a Kubernetes cluster; tests/kubernetes/ checks the manifests and the image's file"
WITH_SPARK = ("README.md", "connect.md", "jobs.md")
OLD_CLI = "the older CLI is no dependency; tried by hand, in the version that the page names, and it needs port 80"
AIRFLOW = "Airflow is no dependency (600 packages); tried by hand, in the version that the page names"
AIR_GAPPED = "writes a gigabyte; tests/spark/test_air_gapped.py does so, and tests/runtime/test_transfer.py with a small runtime"
NOT_RUN = {
    ("operations.md", "brickyard runtime install 17.3.x-scala2.13"): AIR_GAPPED,
    ("operations.md", "brickyard runtime import runtimes.tar"): AIR_GAPPED,
    ("sql-warehouses.md", "from databricks.sdk.service.sql import StatementParameterListItem"):
        "needs Spark; tests/spark/test_warehouses.py does so",
    ("tables.md", "from delta.tables import DeltaTable"): "needs Spark; tests/spark/test_delta.py does so",
    ("tables.md", 'spark.conf.set("spark.databricks.delta.write.txnAppId", "nightly-load")'):
        "needs Spark; tests/spark/test_delta.py does so",
    ("object-stores.md", 'df.write.partitionBy("day").parquet("s3a://bucket/events")'):
        "needs Spark; tests/spark/test_s3a.py does so",
    ("README.md", "git clone REPOSITORY brickyard && cd brickyard"): "tests/fresh/test_fresh_machine.py does so",
    ("README.md", "python3 -m venv client && . client/bin/activate"): "downloads; the snippets after it run with its packages",
    ("clients.md", "brickyard up --detach --host 127.0.0.2 --port 80"): OLD_CLI,
    ("clients.md", "export AIRFLOW_CONN_DATABRICKS_DEFAULT='{\"conn_type\": \"databricks\", \"host\": \"http://127.0.0.1\", "
     '"schema": "http", "port": 8080,'): AIRFLOW,
    ("clients.md", "from airflow.providers.databricks.hooks.databricks import DatabricksHook"): AIRFLOW,
    ("clients.md", "import choppa"): "choppa is no dependency; tried by hand, in the version that the page names",
    ("clients.md", 'curl -N -H "Authorization: Bearer $DATABRICKS_TOKEN" "$DATABRICKS_HOST/api/2.1/changes"'):
        "does not end; tests/api/test_changes.py reads the stream",
    ("audit.md", 'curl -H "Authorization: Bearer $DATABRICKS_TOKEN" '
     '"$DATABRICKS_HOST/api/2.0/audit-logs?operation=clusters.delete&page_size=10"'):
        "needs a token in the environment; tests/features/audit/test_audit.py makes the calls",
    ("cluster-metrics.md", 'curl -H "Authorization: Bearer $DATABRICKS_TOKEN" \\'):
        "needs a cluster's id; tests/contract/test_metrics.py makes the call",
    ("spend.md", 'curl -H "Authorization: Bearer $DATABRICKS_TOKEN" "$DATABRICKS_HOST/api/2.1/spend?group_by=tag:team"'):
        "needs a token in the environment; tests/contract/test_spend.py makes the call",
    ("spend.md", 'curl -X POST -H "Authorization: Bearer $DATABRICKS_TOKEN" "$DATABRICKS_HOST/api/2.1/budgets" \\'): "the same",
    ("logs.md", 'curl -H "Authorization: Bearer $DATABRICKS_TOKEN" '
     '"$DATABRICKS_HOST/api/2.1/clusters/logs/list?cluster_id=$CLUSTER_ID"'):
        "needs a cluster's id; tests/contract/test_logs.py makes the call",
    ("logs.md", "from databricks.sdk import WorkspaceClient"):
        "simulated nodes write no logs here; tests/contract/test_logs.py makes the calls",
    ("cli.md", 'brickyard cluster exec dev "spark.range(10).count()"'): "tests/spark/test_command_line.py runs such code",
    ("secrets.md", "databricks secrets create-scope warehouse"):
        "needs the CLI; tried by hand, in the version that the page names; tests/contract/test_secrets_sdk.py calls these",
    ("v1.md", "import signal"): "runs on a cluster; tests/spark/test_graceful.py does the same there",
    ("files.md", "import sys"): "runs on a cluster; tests/spark/test_data.py does the same there",
    ("notebooks.md", 'found = requests.get(f"{host}/api/2.0/workspace/export", '
     'params={"path": path}, headers=auth).json()'): "needs a notebook; tests/features/files/test_versions.py makes the calls",
    ("notebooks.md", 'value = dbutils.notebook.run("/Users/me/child", 600, {"country": "de"})'):
        "runs on a cluster; tests/spark/test_notebooks.py does the same there",
    ("data.md", 'spark.range(100).selectExpr("id", "id % 3 AS k").write.saveAsTable("numbers")'):
        "runs on a cluster; tests/spark/test_data.py does the same there",
    ("data.md", 'print(spark.table("sales.orders").count(), spark.sql("SHOW PARTITIONS sales.orders").first()[0])'): "the same",
    ("replicas.md", "export BRICKYARD_DATABASE_URL=postgresql://brickyard:PASSWORD@db.internal/brickyard"):
        "tests/replicas/ starts several servers with these settings",
    ("replicas.md", "map $http_upgrade $connection_header {"): "tests/replicas::test_behind_a_proxy runs nginx with it",
    ("sql-clients.md", "import os"): "tests/spark/test_sql_metadata.py connects so; SQLAlchemy's dialect is no dependency",
    ("sql-clients.md", "import base64"): "PyHive is no dependency; tried by hand, in the version that clients.md names",
    ("connect.md", "brickyard up --detach --tls"): "tests/server/test_webserver.py serves so; the client is no dependency",
    ("connect.md", "from databricks.connect import DatabricksSession"):
        "needs Python 3.12; tried by hand, in the version that the page names",
    ("jupyter.md", 'pip install ".[jupyter]" jupyterlab'): "downloads; the tests' environment has the extra",
    ("service.md", "useradd --system --create-home --home-dir /srv/brickyard brickyard"): "changes the machine, as root",
    ("service.md", "chown root:brickyard /etc/brickyard/brickyard.toml"): "the same",
    ("ci.md", "from databricks.sdk.errors import OperationFailed"): "tests/release/ runs the page's jobs, with its tests",
    ("ci.md", "from databricks.sdk import WorkspaceClient"): "the same",
    ("testing.md", "from databricks.sdk.errors import OperationFailed"): "tests/cli/test_pytest_plugin.py runs it with pytest",
    ("testing.md", "pytest test_mine.py"): "the same",
    ("providers.md", '"""plain_provider.py"""'): "tests/providers/test_contract.py runs it",
    ("providers.md", '"""test_plain_provider.py"""'): "the same",
    ("providers.md", "pytest test_plain_provider.py"): "the same",
    ("operations.md", "brickyard down"): "tests/cli/test_operations.py runs backup and restore; the others install or remove",
    ("operations.md", "brickyard adopt-storage"): "needs a half that is lost; tests/cli/test_lost.py runs it",
    ("kubernetes.md", "podman build -f deploy/container/Containerfile -t registry.example.org/brickyard:0.1.0 ."): OWN_CLUSTER,
    ("kubernetes.md", "kubectl create namespace brickyard"): OWN_CLUSTER,
    ("kubernetes.md", "kubectl apply -k deploy/kubernetes"): OWN_CLUSTER,
    ("kubernetes.md", "kubectl drain MACHINE --ignore-daemonsets --delete-emptydir-data --force --timeout=10m"): OWN_CLUSTER,
    ("kubernetes.md", "docker exec kind-control-plane install -d -o 1000 -g 1000 /var/brickyard"): OWN_CLUSTER,
    ("slurm.md", "python3 -m venv ~/brickyard && ~/brickyard/bin/pip install ."):
        "needs a Slurm cluster; tests/slurm/ and tests/spark/test_slurm.py start one with such settings",
    ("slurm.md", "squeue --me --noheader --Format=JobID,Name:100 | awk '/brickyard-/ {print $1}' | xargs -r scancel"): "the same",
    ("jupyter.md", "jupyter lab"): "does not end; tests/jupyter/ runs the kernel that it starts",
}  # fmt: skip


def typed_in(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language not in PICTURES and block.key not in NOT_RUN]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A workspace in the default place of an empty home, and a profile for it, as the README makes them."""
    home = tmp_path_factory.mktemp("home")
    made = home_environment(home, BRICKYARD_PORT="0", BRICKYARD_PROVIDER="simulated", BRICKYARD_CACHE_DIR=str(home / "cache"))
    up = Reader(environment=made)
    up.follow(Block("a start", 1, "bash", "brickyard up --detach\nbrickyard configure\n"))
    made = quick(made)
    try:
        w = client(made)
        w.clusters.create(
            cluster_name="my-cluster", spark_version=catalogue.default().key, node_type_id="i3.xlarge", num_workers=1
        )
        yield made
    finally:
        up.follow(Block("an end", 1, "bash", "brickyard down\n"))


def client(environment: dict[str, str]) -> WorkspaceClient:
    workspace = Workspace(Path(environment["HOME"]) / ".local/share/brickyard")
    running = workspace.running()
    assert running is not None
    return WorkspaceClient(host=running.url, token=workspace.stored_token(), auth_type="pat")


@pytest.mark.parametrize("page", [page for page in PAGES if typed_in(page) and page.name not in WITH_SPARK], ids=lambda p: p.name)
def test_the_snippets_of_a_page(environment: dict[str, str], page: Path) -> None:
    reader = Reader(environment=environment)
    try:
        for block in typed_in(page):
            reader.follow(block)
    finally:
        reader.close()


def test_every_block_is_a_snippet_or_says_why_not() -> None:
    known = {block.key for page in PAGES for block in blocks(page)}
    assert NOT_RUN.keys() <= known, "reasons for what is not there any more"
    assert {page.name for page in PAGES} >= set(WITH_SPARK)
    assert [str(block) for page in PAGES for block in blocks(page) if not block.language] == [], "blocks without a language"


def test_the_terraform_example_is_what_the_api_takes(environment: dict[str, str]) -> None:
    (block,) = [block for block in blocks(ROOT / "README.md") if block.language == "hcl"]
    fields = parse("hcl", block.text)['resource "databricks_cluster" "mine"']
    w = client(environment)
    made = w.clusters.create(**fields)
    assert w.clusters.get(str(made.cluster_id)).spark_version == fields["spark_version"]
    w.clusters.permanent_delete(str(made.cluster_id))


def test_every_example_of_settings_is_a_good_one(tmp_path: Path) -> None:
    examples = [block for page in PAGES for block in blocks(page) if block.language == "toml"]
    assert len(examples) > 1
    for number, block in enumerate(examples):
        if "[per_hour]" in block.text:
            parse_prices(block.text)
            continue
        file = tmp_path / f"{number}.toml"
        file.write_text(block.text)
        load(config_file=file, environ={})


def test_all_pages_use_one_runtime(environment: dict[str, str]) -> None:
    """Whoever follows them installs one runtime, and PySpark of its line."""
    default, snippets = catalogue.default(), [block for page in PAGES for block in blocks(page)]
    named = {key for block in snippets for key in re.findall(r"\d+\.\d+\.x-scala2\.\d+", block.text)}
    assert named == {default.key}
    lines = {line for page in PAGES for line in re.findall(r"pyspark\[connect\]==([\d.]+)\.\*", page.read_text())}
    assert lines == {default.spark_version.rpartition(".")[0]}
    asked = {call for block in snippets for call in re.findall(r"select_spark_version\((.*)\)", block.text)}
    assert asked == {'long_term_support=True, scala="2.13"'}
    assert client(environment).clusters.select_spark_version(long_term_support=True, scala="2.13") == default.key


def test_the_reader_notices_what_fails(tmp_path: Path) -> None:
    reader = Reader(environment=home_environment(tmp_path))
    reader.instead["8080"] = "1"
    shown = reader.follow(Block("a page", 1, "bash", "export HERE=8080\necho $HERE\n"))
    assert (shown, reader.environment["HERE"]) == ("1\n", "1")
    assert reader.follow(Block("a page", 2, "python", "x = 2\nprint(x)\n")) == "2\n"
    wrong = {"bash": "false | true", "python": "assert x == 3", "toml": "a = ", "json": "{", "ini": "x", "hcl": "a {", "": "x"}
    for language, text in wrong.items():
        with pytest.raises((AssertionError, ValueError, configparser.Error)):
            reader.follow(Block("a page", 3, language, f"{text}\n"))
    reader.close()
