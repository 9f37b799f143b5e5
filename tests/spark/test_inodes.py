"""A data directory on a file system with few inodes: who takes them is ended, and nobody else notices."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from databricks.sdk.service.compute import Kind, State

from tests.spark.live import Live
from tests.spark.neighbours import neighbour
from tests.support.patience import PATIENCE_S, until
from tests.support.runtimes import SPARK_4

pytestmark = [
    pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(3 * PATIENCE_S),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk where the test sees it, too"),
]  # fmt: skip
TOTAL, LEFT = 30_000, 5_000  # the node need not take half of all, which ends it in any case
TAKE = """
import os, time
for number in range(5_000):
    os.close(os.open(f"/tmp/{number}", os.O_CREAT))
    if number % 10 == 0:
        time.sleep(0.02)  # a node that takes them within a second is ended as well, but others may have noticed by then
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size=4g,nr_inodes={TOTAL}", "small", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_node_that_takes_the_inodes_is_ended_and_its_neighbour_notices_nothing(disk: Path) -> None:
    def left() -> int:
        return os.statvfs(disk).f_favail

    live = Live(disk / "workspace")
    live.start()
    try:
        with neighbour(live):
            greedy = live.create("greedy", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
            live.wait(greedy, State.RUNNING)
            (disk / "others").mkdir()
            for number in range(left() - LEFT):
                (disk / "others" / str(number)).touch()
            context = live.context(greedy)
            live.begin(greedy, context, TAKE)
            code, parameters, _ = live.ended(greedy)
            assert code == "DRIVER_OUT_OF_DISK", parameters
            until(lambda: left() > LEFT - 500, "the inodes that the node took")
            assert "reason" not in requests.get(f"{live.w.config.host}/readyz", timeout=PATIENCE_S).json()
            live.w.clusters.start(greedy)
            live.wait(greedy, State.RUNNING)
    finally:
        live.close()
