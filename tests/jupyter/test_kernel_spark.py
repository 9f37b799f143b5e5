"""A notebook on a real cluster, opened as JupyterLab opens it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.jupyter.test_notebook import shown
from tests.support.patience import PATIENCE_S
from tests.support.runtimes import SPARK_4
from tests.support.server import TOKEN, Server

# tests/jupyter/test_notebook.py has the kernel in every run, and tests/contexts/ what it runs, on real Spark.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[KernelManager]:
    """A kernel that `brickyard kernel install` has made, for a cluster that is terminated."""
    with Server.running(tmp_path / "workspace", connect_port=0) as server:
        w = server.client()
        conf = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}
        waiting = w.clusters.create(
            cluster_name="notebooks", spark_version=SPARK_4, node_type_id="i3.xlarge", num_workers=0, spark_conf=conf
        )
        w.clusters.delete(waiting.cluster_id).result()
        (tmp_path / "cfg").write_text(f"[work]\nhost = {server.url}\ntoken = {TOKEN}\n")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DATABRICKS_")}
        environment |= {"DATABRICKS_CONFIG_FILE": str(tmp_path / "cfg"), "JUPYTER_DATA_DIR": str(tmp_path / "jupyter")}
        argv = [sys.executable, "-m", "brickyard", "kernel", "install", "notebooks", "--profile", "work"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        (name,) = [path.name for path in (tmp_path / "jupyter" / "kernels").iterdir()]
        specs = KernelSpecManager(kernel_dirs=[str(tmp_path / "jupyter" / "kernels")])
        with TemporaryDirectory(prefix="brickyard-") as sockets:  # as in test_notebook.py
            made = KernelManager(kernel_name=name, kernel_spec_manager=specs, transport="ipc", ip=f"{sockets}/kernel")
            made.start_kernel(env={**environment, "IPYTHONDIR": str(tmp_path / "ipython")})
            yield made
            made.shutdown_kernel(now=True)


def test_a_notebook_computes_on_the_cluster(manager: KernelManager) -> None:
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE_S)
    try:
        first = shown(client, client.execute("n = spark.range(1000).count()\nprint(n)"), patience_s=300)
        assert ("stream", {"name": "stdout", "text": "1000\n"}) in first
        assert ("stream", {"name": "stdout", "text": "1001\n"}) in shown(client, client.execute("print(n + 1)"))
        table = [content for kind, content in shown(client, client.execute("%sql SELECT 7 AS seven")) if kind == "display_data"]
        assert ">seven</th>" in table[0]["data"]["text/html"]
        completed = client.complete("spark.ra", 8, reply=True, timeout=PATIENCE_S)["content"]
        assert "range" in completed["matches"]
        assert (completed["cursor_start"], completed["cursor_end"]) == (6, 8)
        told = client.inspect("abs(1)", 1, reply=True, timeout=PATIENCE_S)["content"]
        assert "absolute value" in told["data"]["text/plain"]
        assert not client.inspect("no_such_name", 3, reply=True, timeout=PATIENCE_S)["content"]["found"]
        asked, reply = client.is_complete("for x in y:"), {"parent_header": {"msg_id": ""}}
        while reply["parent_header"]["msg_id"] != asked:
            reply = client.get_shell_msg(timeout=PATIENCE_S)
        assert reply["content"]["status"] == "incomplete"
        errors = [content["ename"] for kind, content in shown(client, client.execute("1 / 0")) if kind == "error"]
        assert errors == ["ZeroDivisionError"]
    finally:
        client.stop_channels()
