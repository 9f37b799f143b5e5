"""The snippets that promise answers, on real Spark: README as far as Spark Connect, and the pages that it leads to."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient

from brickyard.server.datadir import Workspace
from tests.cli.test_snippets import WITH_SPARK, typed_in
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4, cache_dir, manifest_of
from tests.support.snippets import PAGES, Block, Reader, home_environment

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SITE = "import site; print(site.getsitepackages()[0])"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Somebody with an empty home and a workspace in its default place. Their Python has PySpark with Connect, and the SDK."""
    manifest, port = manifest_of(SPARK_4), free_port()
    of_runtime = subprocess.run([manifest["python"], "-c", SITE], capture_output=True, text=True, check=True).stdout.strip()
    environment = home_environment(tmp_path, BRICKYARD_PORT="0", BRICKYARD_CACHE_DIR=str(cache_dir()))
    # Of what both have, the runtime's are used; the SDK is ours.
    path = os.pathsep.join((of_runtime, sysconfig.get_path("purelib")))
    made = Reader(environment=environment, python=manifest["python"], python_path=path)
    made.follow(Block("a start", 1, "bash", f"brickyard up --detach --connect-port {port}\n"))
    try:
        running = workspace(made).running()
        assert running is not None
        made.instead |= {"http://127.0.0.1:8080": running.url, "localhost:15002": f"localhost:{port}"}
        yield made
    finally:
        made.close()
        made.follow(Block("an end", 1, "bash", "brickyard down\n"))


def workspace(reader: Reader) -> Workspace:
    return Workspace(Path(reader.environment["HOME"]) / ".local/share/brickyard")


def test_readme_and_the_pages_that_it_leads_to(reader: Reader) -> None:
    readme, connect, jobs = ([block for page in PAGES if page.name == name for block in typed_in(page)] for name in WITH_SPARK)
    assert [reader.follow(block) for block in readme] == ["", "10\n", "10\n", ""], "by a command, then through Connect"
    token = workspace(reader).stored_token()
    w = WorkspaceClient(host=reader.environment["DATABRICKS_HOST"], token=token, auth_type="pat")
    (mine,) = w.clusters.list()
    assert mine.spark_version == SPARK_4
    reader.instead |= {"dapi...": token, "1121-075500-abcdefgh": str(mine.cluster_id)}
    assert [reader.follow(block) for block in connect] == ["10\n"]
    w.clusters.delete(str(mine.cluster_id))  # its room is for the job's cluster
    assert [reader.follow(block) for block in jobs] == ["SUCCESS\n", "1000\n"]
