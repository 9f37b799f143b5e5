"""server.log is bounded while the server runs, and JSON alone where that is its format."""

from __future__ import annotations

import json
import os
from pathlib import Path

from brickyard.logs import serverlog
from tests.support.command import Cli


def test_the_log_is_rotated_under_those_who_write_it(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    output = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(output, b"first\n" * 10)
        assert not serverlog.rotate(path, limit=60, outputs=(output,))
        os.write(output, b"second\n")
        assert serverlog.rotate(path, limit=60, outputs=(output,))
        os.write(output, b"third\n")
        assert path.read_bytes() == b"third\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "server.log.1").read_bytes() == b"first\n" * 10 + b"second\n"
    finally:
        os.close(output)
    assert not serverlog.rotate(tmp_path / "missing", limit=0)


def test_a_server_writes_json_alone(cli: Cli) -> None:
    noisy = {"GRPC_VERBOSITY": "debug", "GRPC_TRACE": "tcp,channel,http"}
    started = cli.run("up", "--detach", "--log-format", "json", "--connect-port", "0", **noisy)
    assert started.returncode == 0, started.stderr
    cli.client().clusters.create(cluster_name="a", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
    assert cli.run("down").returncode == 0
    lines = [json.loads(line) for line in cli.workspace.log_file.read_text().splitlines()]
    assert {"serves", "request", "stopped"} <= {line["event"] for line in lines}


def test_a_server_that_does_not_start_says_so_in_json(cli: Cli) -> None:
    for command in (("up",), ("up", "--detach")):
        done = cli.run(*command, "--log-format", "json", "--database-url", "sqlite:////proc/nowhere/x.db")
        assert done.returncode == 1
        if command == ("up",):
            [last] = [json.loads(line) for line in done.stderr.splitlines()][-1:]
            assert (last["event"], last["level"]) == ("ended", "error")
        else:
            assert done.stderr.startswith("brickyard: ")
