"""A machine whose /etc/hosts does not know `localhost`, and whose own name leads nowhere."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from databricks.sdk.service.compute import Kind, State

from brickyard.machine.linux import CLONE_NEWNS, CLONE_NEWUTS
from brickyard.sandbox import launcher
from tests.spark.live import Live
from tests.spark.neighbours import neighbour
from tests.support.patience import PATIENCE_S
from tests.support.runtimes import SPARK_4

pytestmark = [
    pytest.mark.spark, pytest.mark.timeout(3 * PATIENCE_S),
    pytest.mark.extended,  # three clusters; tests/sandbox/test_views.py has the hosts that a node sees
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process another /etc/hosts"),
]  # fmt: skip
MS_BIND, MS_REC_PRIVATE = 0x1000, 0x44000
SUMS = """
sums = sc.accumulator(0)
sc.parallelize([1, 2, 3]).foreach(lambda number: sums.add(number))
print(sums.value, spark.range(4).toPandas().id.sum(), list(map(len, spark.range(3).toLocalIterator())))
"""


def on_such_a_machine(hosts: Path, work: Callable[[], None]) -> None:
    """Does it on a thread with another view of the machine, which the processes that it starts keep."""
    libc = ctypes.CDLL(None, use_errno=True)

    def within() -> None:
        if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS):
            pytest.skip("no mount namespaces here")
        assert libc.mount(None, b"/", None, MS_REC_PRIVATE, None) == 0
        assert libc.mount(bytes(hosts), b"/etc/hosts", None, MS_BIND, None) == 0
        assert libc.sethostname(b"nowhere", 7) == 0
        work()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(within).result()


@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_contexts_start_without_localhost_in_the_machines_hosts(isolation: launcher.Mode, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("10.0.0.7 elsewhere localhost\n" if isolation == "auto" else "10.0.0.7 elsewhere\n")
    live = Live(tmp_path / "workspace")
    live.settings = msgspec.structs.replace(live.settings, isolation=isolation)
    on_such_a_machine(hosts, live.start)
    try:
        if isolation == "off":
            cluster_id = live.create("plain", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
            live.wait(cluster_id, State.RUNNING)
            assert live.run(cluster_id, SUMS) == "6 6 [1, 1, 1]"
            return
        with neighbour(live) as each:
            assert each.user.run(each.cluster_id, SUMS) == "6 6 [1, 1, 1]"
            resolved = "import socket; print(socket.gethostbyname('localhost'), bool(socket.gethostbyname(socket.gethostname())))"
            assert each.user.run(each.cluster_id, resolved) == "127.0.0.1 True"
    finally:
        live.close()
