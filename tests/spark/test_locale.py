"""A workspace below a path with letters that are not ASCII, on a machine in the C locale, whose log is JSON: a warm node in it,
files with such names, and every line of its agent's logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from databricks.sdk.service.compute import State

from tests.spark.live import NODE, Live
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

# A node is warmed. tests/machine/test_locales.py has what is given to everything that is started.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(600)]

CODE = """
import os
names = {"jnu": spark._jvm.java.lang.System.getProperty("sun.jnu.encoding"), "python": __import__("sys").getfilesystemencoding()}
spark.range(3).write.csv("dbfs:/Grüße/数")
print(names, spark.read.csv("dbfs:/Grüße/数").count(), os.listdir("/dbfs/Grüße"))
"""


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.delenv("LANG", raising=False)
    monkeypatch.delenv("LC_CTYPE", raising=False)
    monkeypatch.setenv("LC_ALL", "C")
    made = Live(tmp_path / "Grüße 😀")
    made.settings = msgspec.structs.replace(made.settings, log_format="json")
    made.start()
    try:
        yield made
    finally:
        made.close()


def test_names_that_are_not_ascii_in_the_c_locale(live: Live) -> None:
    warm = live.w.instance_pools.create("warm", NODE, min_idle_instances=1, preloaded_spark_versions=[SPARK_4])
    pool = str(warm.instance_pool_id)

    def idle() -> bool:
        stats = live.w.instance_pools.get(pool).stats
        return stats is not None and stats.idle_count == 1

    until(idle, "no warm instance")
    made = live.w.clusters.create(
        cluster_name="a", spark_version=SPARK_4, instance_pool_id=pool, num_workers=0,
        spark_conf={"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"},
        custom_tags={"ResourceClass": "SingleNode"},
    )  # fmt: skip
    cluster_id = str(made.cluster_id)
    live.wait(cluster_id, State.RUNNING)
    assert live.run(cluster_id, CODE) == "{'jnu': 'UTF-8', 'python': 'utf-8'} 3 ['数']"
    listed = live.w.api_client.do("GET", "/api/2.1/clusters/logs/list", query={"cluster_id": cluster_id})
    assert isinstance(listed, dict)
    sizes = {each["path"]: each["size"] for each in listed["files"]}
    assert sizes["log4j-active.log"] > 0, "Java logs into the node's directory"

    logs = [*live.data.glob("instances/*/agent.log"), *live.data.glob("instances/*/node.log"), live.workspace.log_file]
    assert len(logs) >= 3
    for log in logs:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert lines and all(line["event"] and line["timestamp"] for line in lines), log
