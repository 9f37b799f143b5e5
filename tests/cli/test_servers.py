"""Two servers of one workspace, as those who run them see them."""

from __future__ import annotations

import json
from pathlib import Path

from databricks.sdk.service.compute import State

from tests.support.command import Cli
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.postgres import Postgres


def servers(cli: Cli, **environment: str) -> int:
    return int(json.loads(cli.run("status", "--json", **environment).stdout)["servers"])


def test_one_of_two_servers_that_stops_ends_no_node_and_the_last_ends_them(
    cli: Cli, tmp_path: Path, postgres: Postgres, golden: Golden
) -> None:
    url = postgres.new_database()
    second = {"BRICKYARD_DATA_DIR": str(tmp_path / "second"), "BRICKYARD_STORAGE_URL": str(cli.data)}
    assert cli.run("up", "--detach", "--database-url", url).returncode == 0
    try:
        started = cli.run("up", "--detach", "--database-url", url, **second)
        assert started.returncode == 0, started.stderr
        clusters = cli.client().clusters
        made = clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
        until(lambda: servers(cli) == 2)
        assert servers(cli, **second) == 2
        golden.line(cli.run("status").stdout, "Servers")
    finally:
        stopped = cli.run("down", **second)
    assert stopped.returncode == 0, stopped.stderr
    until(lambda: servers(cli) == 1)
    assert clusters.get(str(made.cluster_id)).state is State.RUNNING
    assert cli.run("down").returncode == 0
    assert cli.run("up", "--detach", "--database-url", url).returncode == 0
    found = cli.client().clusters.get(str(made.cluster_id))
    assert found.state is State.TERMINATED
    assert cli.run("down").returncode == 0
