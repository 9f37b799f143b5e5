"""A context that uses up its processes, and a driver's JVM that can make no more threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from databricks.sdk.service.compute import CommandStatus, Kind, State

from brickyard.machine import cgroups
from tests.spark.live import JVM, Live
from tests.spark.neighbours import neighbour
from tests.support.patience import PATIENCE_S, until
from tests.support.runtimes import SPARK_4

pytestmark = [
    pytest.mark.spark, pytest.mark.timeout(4 * PATIENCE_S),
    pytest.mark.extended,  # three clusters, and a JVM is given up; tests/sandbox/test_scarce.py has the limits
    pytest.mark.skipif(cgroups.probe() != "cgroup", reason="no control groups here: processes are counted once a second"),
]  # fmt: skip
BOMB = """
import threading, time
made = 0
try:
    while made < 100_000:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        made += 1
except RuntimeError as error:
    print(error)
"""
COUNT = "print(spark.range(100).repartition(8).count())"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("processes") / "data")
    made.settings = msgspec.structs.replace(made.settings, spark_silence_s=15.0, driver_give_up_s=20.0)
    made.start()
    try:
        yield made
    finally:
        made.close()


def test_processes(live: Live) -> None:
    with neighbour(live):
        cluster_id = live.create("bomb", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
        live.wait(cluster_id, State.RUNNING)
        context_id = live.context(cluster_id)
        bomb = live.finish(cluster_id, context_id, live.begin(cluster_id, context_id, BOMB))
        assert bomb.results is not None and bomb.results.data == "can't start new thread"
        assert live.run(cluster_id, COUNT) == "100", "a new context, while the other holds what it has"
        after = live.finish(cluster_id, context_id, live.begin(cluster_id, context_id, "print(spark.range(3).count())"))
        assert after.status is CommandStatus.FINISHED and after.results is not None and after.results.data == "3"
        assert live.events(cluster_id) == ["CREATING", "RUNNING", "DRIVER_HEALTHY"]
    live.w.command_execution.destroy(cluster_id, context_id)
    jvm = live.below(live.driver_agent(cluster_id), JVM)
    (limit,) = (path for path in _groups_of(jvm.pid) if path.exists())
    until(lambda: int(limit.with_name("pids.current").read_text()) < 1000, "the end of the context's threads")
    limit.write_text("10")  # what is there stays
    code, parameters, message = live.ended(cluster_id)
    assert code == "DRIVER_UNRESPONSIVE"
    for each in (message, parameters["databricks_error_message"]):
        assert "processes" in each and "threads" in each


def _groups_of(pid: int) -> Iterator[Path]:
    """Where the limit on processes of the process's control group may be."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        mount = "/sys/fs/cgroup" + (f"/{controllers}" if controllers else "")
        if controllers in ("", "pids"):
            yield Path(mount + group, "pids.max")
