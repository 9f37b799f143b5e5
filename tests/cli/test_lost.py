"""Half of a workspace is lost, moved or new: commands refuse, say what they found, and lead back."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import urllib.error
from contextlib import closing
from pathlib import Path

import psutil
import psycopg
import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from databricks.sdk.errors.base import DatabricksError

from brickyard import __version__
from brickyard.cli.http import get
from brickyard.store import schema
from tests.support.command import COMMAND, Cli, one_line
from tests.support.databases import empty_sqlite
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres import Postgres


def refused(cli: Cli, *arguments: str, **environment: str) -> str:
    return one_line(cli.run(*arguments, **environment))


def tree(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*")} - {"server.lock", "storage.lock"}


def make_cluster(cli: Cli) -> str:
    return str(cli.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).cluster_id)


def test_a_database_that_is_lost_is_missed_before_anything_is_made_or_removed(cli: Cli, tmp_path: Path) -> None:
    assert cli.run("up", "--detach").returncode == 0
    cluster_id = make_cluster(cli)
    (cli.data / "clusters" / cluster_id / "table").mkdir(parents=True)
    assert cli.run("down").returncode == 0
    database, backup = cli.data / "brickyard.db", tmp_path / "backup.db"
    database.rename(backup)
    before = tree(cli.data)
    assert "adopt-storage" in refused(cli, "up")
    assert tree(cli.data) == before
    database.touch()
    assert "adopt-storage" in refused(cli, "up")
    assert database.stat().st_size == 0
    assert "--yes" in cli.run("adopt-storage").stderr
    assert database.stat().st_size == 0, "nothing is made before somebody has agreed"

    shutil.copyfile(backup, database)
    identity, away = cli.data / "workspace.id", tmp_path / "away"
    (cli.data / "workspace.key").rename(tmp_path / "key")
    identity.rename(away)
    assert "adopt-storage" in refused(cli, "up")
    assert not identity.exists() and not (cli.data / "workspace.key").exists()
    away.rename(identity)
    (tmp_path / "key").rename(cli.data / "workspace.key")
    assert cli.run("up", "--detach").returncode == 0, "what was there is as it was"
    assert cli.client().clusters.get(cluster_id).cluster_id == cluster_id
    assert cli.run("down").returncode == 0

    database.unlink()
    joined = cli.run("adopt-storage", "--yes")
    assert joined.returncode == 0, joined.stderr
    assert identity.read_text().strip() in joined.stdout
    assert cli.run("up", "--detach").returncode == 0
    assert list(cli.client().clusters.list()) == []
    assert cli.run("down").returncode == 0
    assert (cli.data / "clusters" / cluster_id / "table").is_dir(), "the database has never known it"


def test_a_storage_that_is_lost_is_replaced_by_command_only(cli: Cli, tmp_path: Path, golden: Golden) -> None:
    storage = {"BRICKYARD_STORAGE_URL": str(tmp_path / "storage")}
    assert cli.run("up", "--detach", **storage).returncode == 0
    cluster_id = make_cluster(cli)
    assert cli.run("down", **storage).returncode == 0
    (tmp_path / "storage").rename(tmp_path / "unmounted")
    assert "storage_url" in refused(cli, "up", **storage)
    assert tree(tmp_path / "storage") == set()
    assert cli.run("adopt-storage", "--yes", **storage).returncode == 0
    golden(refused(cli, "adopt-storage", "--yes", **storage))
    assert cli.run("up", "--detach", **storage).returncode == 0
    assert cli.client().clusters.get(cluster_id).cluster_id == cluster_id


def test_a_workspace_moves_from_sqlite_to_postgresql(cli: Cli, postgres: Postgres, golden: Golden) -> None:
    url = postgres.new_database()
    assert cli.run("up", "--detach").returncode == 0
    cluster_id = make_cluster(cli)
    token = cli.client().tokens.create(comment="of before").token_value
    golden(refused(cli, "migrate-database", "--database-url", url))
    assert cli.run("down").returncode == 0
    assert "migrate-database" in refused(cli, "up", "--database-url", url)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)

    command = [*COMMAND, "migrate-database", "--database-url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=cli.environment, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() != ""
        killed.kill()
    moved = cli.run("migrate-database", "--database-url", url)
    assert moved.returncode == 0, moved.stderr
    assert "database_url" in refused(cli, "up"), "the old database is nobody's"
    assert cli.run("up", "--detach", "--database-url", url).returncode == 0
    assert cli.client().clusters.get(cluster_id).cluster_id == cluster_id
    running = cli.workspace.running()
    assert running is not None
    assert cluster_id in get(f"{running.url}/api/2.1/clusters/list", token=str(token), timeout_s=PATIENCE_S)
    assert cli.run("down").returncode == 0


def test_a_data_directory_that_is_removed_under_a_server_can_be_saved(cli: Cli, tmp_path: Path) -> None:
    storage = {"BRICKYARD_STORAGE_URL": str(tmp_path / "storage")}
    assert cli.run("up", "--detach", **storage).returncode == 0
    cluster_id = make_cluster(cli)
    running, token = cli.workspace.running(), cli.workspace.stored_token()
    assert running is not None
    config = Config(host=running.url, token=token, auth_type="pat", retry_timeout_seconds=1)
    client = WorkspaceClient(config=config)
    shutil.rmtree(cli.data)
    with pytest.raises((DatabricksError, TimeoutError)):
        client.clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
    with pytest.raises(urllib.error.HTTPError) as answer:
        get(f"{running.url}/readyz", timeout_s=PATIENCE_S)
    assert answer.value.code == 503
    assert f"process {running.pid} " in refused(cli, "status", **storage)
    said = refused(cli, "down", **storage)
    assert f"process {running.pid} " in said
    copies = [line.strip() for line in said.split(";") if line.strip().startswith("cp ")]
    assert len(copies) == 2
    cli.data.mkdir()
    for copy in copies:
        subprocess.run(copy.split(), check=True)
    os.kill(running.pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(running.pid) or psutil.Process(running.pid).status() == psutil.STATUS_ZOMBIE)
    assert cli.run("down", **storage).returncode == 0
    assert cli.run("up", "--detach", **storage).returncode == 0
    assert cli.client().clusters.get(cluster_id).cluster_id == cluster_id
    assert cli.run("down", **storage).returncode == 0


def test_a_database_of_a_newer_version_is_refused_with_both_versions(cli: Cli, postgres: Postgres) -> None:
    cli.data.mkdir()
    empty_sqlite(cli.data / "brickyard.db")
    (cli.data / "workspace.id").write_text("1234567890123456\n")
    with closing(sqlite3.connect(cli.data / "brickyard.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.execute("UPDATE meta SET value = '99.1' WHERE key = ?", (schema.WRITTEN_BY,))
    commands = [["up"], ["up", "--detach"], ["adopt-storage", "--yes"]]
    for command in [*commands, ["migrate-database", "--database-url", postgres.new_database()]]:
        said = refused(cli, *command)
        assert "Brickyard 99.1" in said and f"Brickyard {__version__}" in said
