"""Upgrades two servers of an earlier commit to this one, under load, on real Spark: what is lost, and how long nobody answers.

    ./dev python -m bench.upgrade [COMMIT]

A cluster computes, a run goes on, and a client makes tokens all the time. Checked: the new version refuses to join the old one,
and the old one the new one, each with a reason; a context keeps its variables; the run ends well; every token whose creation was
answered is there.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import Language
from databricks.sdk.service.jobs import RunResultState, SparkPythonTask, SubmitTask

from bench._harness import CACHE
from tests.support.ports import free_port
from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[1]
EARLIER = "4ccdf9a8"  # a day of work and seven migrations ago
TOKEN = "dapi" + "1" * 32
KEY = "17.3.x-scala2.13"
RUN_S = 90


class Server:
    """One server, of whichever version its sources are."""

    def __init__(self, home: Path, number: int, common: dict[str, str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = {
            **os.environ, **common, "BRICKYARD_DATA_DIR": str(home / f"server-{number}"), "BRICKYARD_PORT": str(self.port),
            "BRICKYARD_CONNECT_PORT": str(free_port()),
        }  # fmt: skip

    def run(self, sources: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from brickyard.cli import main; main()", *arguments]
        environment = {**self._environment, "PYTHONPATH": str(sources / "src")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)

    def up(self, sources: Path) -> None:
        done = self.run(sources, "up", "--detach")
        assert done.returncode == 0, done.stderr

    def client(self) -> WorkspaceClient:
        return WorkspaceClient(
            config=Config(host=self.url, token=TOKEN, auth_type="pat", retry_timeout_seconds=2, http_timeout_seconds=5)
        )


class Load:
    """Makes tokens at any server; remembers those that were answered, and when nobody did."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers, self._stop = servers, threading.Event()
        self.made: list[str] = []
        self.longest_s = 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        answered, number = time.monotonic(), 0
        while not self._stop.is_set():
            number += 1
            try:
                made = self._servers[number % len(self._servers)].client().tokens.create(comment=f"load {number}")
            except (DatabricksError, OSError, TimeoutError):
                time.sleep(0.05)
                continue
            now = time.monotonic()
            self.longest_s, answered = max(self.longest_s, now - answered), now
            if made.token_info is not None:
                self.made.append(str(made.token_info.token_id))

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def main() -> None:
    commit = sys.argv[1] if len(sys.argv) > 1 else EARLIER
    with tempfile.TemporaryDirectory(prefix="brickyard-upgrade-") as directory:
        home = Path(directory)
        old = home / "old"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", old, commit], check=True)
        (home / "postgres").mkdir()
        postgres = Postgres.start(home / "postgres")
        common = {
            "HOME": str(home), "BRICKYARD_DATABASE_URL": postgres.new_database(), "BRICKYARD_STORAGE_URL": str(home / "storage"),
            "BRICKYARD_ADMIN_TOKEN": TOKEN, "BRICKYARD_CACHE_DIR": str(CACHE), "BRICKYARD_BACKGROUND_TRAINING": "false",
            "BRICKYARD_ENDS_WITH": str(os.getpid()),
        }  # fmt: skip
        servers = [Server(home, number, common) for number in range(3)]
        try:
            measure(servers, old)
        finally:
            for server in servers:
                server.run(ROOT, "down")
            postgres.end()
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", old], check=False)


def measure(servers: list[Server], old: Path) -> None:
    """Two servers serve; the third is the one that is refused."""
    for server in servers[:2]:
        server.up(old)
    w = servers[0].client()
    made: Any = w.clusters.create_and_wait(cluster_name="lives on", spark_version=KEY, node_type_id="i3.xlarge", num_workers=1)
    context = w.command_execution.create_and_wait(cluster_id=made.cluster_id, language=Language.PYTHON)
    execute = {"cluster_id": made.cluster_id, "context_id": context.id, "language": Language.PYTHON}
    w.command_execution.execute_and_wait(**execute, command="x = spark.range(41).count()")
    w.dbfs.upload("/long.py", io.BytesIO(f"import time; time.sleep({RUN_S})".encode()))
    task = SubmitTask(
        task_key="long", existing_cluster_id=made.cluster_id, spark_python_task=SparkPythonTask(python_file="dbfs:/long.py")
    )
    run_id = w.jobs.submit(run_name="long", tasks=[task]).run_id
    refused = servers[2].run(ROOT, "up", "--detach")
    assert refused.returncode != 0, "the new version joined the old one"
    print(f"new beside old: {refused.stderr.strip().splitlines()[-1]}")
    load = Load(servers[:2])
    time.sleep(3)
    for server in servers[:2]:
        done = server.run(old, "down", "--keep-nodes")
        assert done.returncode == 0, done.stderr
    for server in servers[:2]:
        server.up(ROOT)
    time.sleep(3)
    load.end()
    refused = servers[2].run(old, "up", "--detach")
    assert refused.returncode != 0, "the old version joined the new one"
    print(f"old beside new: {refused.stderr.strip().splitlines()[-1]}")
    w = servers[1].client()
    answer: Any = w.command_execution.execute_and_wait(**execute, command="x + 1")
    assert answer.results.data == "42", answer
    there = {each.token_id for each in w.tokens.list()}
    assert not (lost := [each for each in load.made if each not in there]), lost
    while (run := w.jobs.get_run(int(run_id or 0))).state is None or run.state.result_state is None:
        time.sleep(1)
    assert run.state.result_state is RunResultState.SUCCESS, run.state
    print(f"{len(load.made)} tokens were made, none is lost; the context and the run lived on")
    print(f"nobody answered for at most {load.longest_s:.1f} s")


if __name__ == "__main__":
    main()
