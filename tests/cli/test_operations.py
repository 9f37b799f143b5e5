"""Backup and restore as docs/operations.md says, on both databases: clusters, files and tokens are there again."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import State

from brickyard.server.datadir import Workspace
from tests.support.postgres import Postgres
from tests.support.snippets import ROOT, Reader, blocks, home_environment, quick

PAGE = ROOT / "docs" / "operations.md"
KEY = "17.3.x-scala2.13"


def client(home: Path) -> WorkspaceClient:
    workspace = Workspace(home / ".local/share/brickyard")
    running = workspace.running()
    assert running is not None
    return WorkspaceClient(host=running.url, token=workspace.stored_token(), auth_type="pat")


def snippet(reader: Reader, heading: str) -> None:
    """What stands below a heading of the page."""
    lines = PAGE.read_text().splitlines()
    start = lines.index(f"## {heading}")
    reader.follow(next(block for block in blocks(PAGE) if block.line > start))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_was_backed_up_is_there_again(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    more, postgres = {}, None
    if kind == "postgresql":
        postgres = request.getfixturevalue("postgres")
        assert isinstance(postgres, Postgres)
        more["BRICKYARD_DATABASE_URL"] = postgres.new_database()
    environment = home_environment(
        tmp_path, BRICKYARD_PORT="0", BRICKYARD_PROVIDER="simulated", BRICKYARD_CACHE_DIR=str(tmp_path / "cache"), **more
    )
    reader = Reader(environment=quick(environment))
    reader.type_in("brickyard up --detach")
    try:
        w = client(tmp_path)
        made = w.clusters.create(cluster_name="kept", spark_version=KEY, node_type_id="i3.xlarge", num_workers=1).result()
        w.dbfs.upload("/kept.txt", io.BytesIO(b"kept"))
        w.secrets.create_scope("scope")
        w.secrets.put_secret("scope", "key", string_value="value")
        token = str(w.tokens.create(comment="mine").token_value)
        snippet(reader, "Backup")
        assert client(tmp_path).clusters.get(str(made.cluster_id)).state is State.RUNNING, "it went on"
        w.dbfs.delete("/kept.txt")
        w.clusters.permanent_delete(str(made.cluster_id))
        if postgres is not None:  # the page: an empty database
            reader.type_in("brickyard down")
            reader.environment["BRICKYARD_DATABASE_URL"] = postgres.new_database()
        snippet(reader, "Restore")
        found = WorkspaceClient(host=client(tmp_path).config.host, token=token, auth_type="pat")
        cluster = found.clusters.wait_get_cluster_terminated(str(made.cluster_id))
        assert (cluster.cluster_name, cluster.state) == ("kept", State.TERMINATED)
        assert found.dbfs.download("/kept.txt").read() == b"kept"
        assert found.secrets.get_secret("scope", "key").value == "dmFsdWU="
        assert found.clusters.start(str(made.cluster_id)).result().state is State.RUNNING
        second = json.loads(reader.type_in("brickyard backup --json ~"))
        checked = json.loads(reader.type_in(f"brickyard restore --check --json {second['file']}"))
        assert (checked["workspace_id"], checked["files"], checked["restored"]) == (
            second["workspace_id"],
            second["files"],
            False,
        )
    finally:
        reader.type_in("brickyard down")
        shutil.rmtree(tmp_path / "brickyard-before", ignore_errors=True)
