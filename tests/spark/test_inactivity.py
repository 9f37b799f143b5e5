"""Auto-termination on a real cluster, with a clock that jumps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import Kind, State, TerminationReasonType

from brickyard.domain.clock import SystemClock
from brickyard.domain.node import NodeStatus
from brickyard.store.store import Store
from tests.spark.live import User
from tests.support.patience import until
from tests.support.runtimes import SPARK_3
from tests.support.server import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MINUTES = 10


class JumpingClock(SystemClock):
    """The server's time; its nodes keep the machine's."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class Watch:
    """What the server has heard from the one node that there is."""

    def __init__(self, data: Path) -> None:
        self._store = Store.open(f"sqlite:///{data / 'brickyard.db'}")

    def driver(self) -> NodeStatus:
        (known,) = self._store.read_sync(lambda tx: tx.instances.many(tx.instances.states()))
        return known.status

    def close(self) -> None:
        self._store.close()


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def data(tmp_path: Path, clock: JumpingClock) -> Iterator[tuple[User, Watch]]:
    with Server.running(tmp_path / "workspace", clock=clock) as server:
        watch = Watch(tmp_path / "workspace")
        try:
            yield User(server.client()), watch
        finally:
            watch.close()


def test_a_running_command_keeps_a_cluster_that_would_end_otherwise(data: tuple[User, Watch], clock: JumpingClock) -> None:
    user, watch = data
    cluster = user.create("idle", SPARK_3, is_single_node=True, kind=Kind.CLASSIC_PREVIEW, autotermination_minutes=MINUTES)
    user.wait(cluster, State.RUNNING)
    context = user.context(cluster)
    waits = "import os, time\nwhile not os.path.exists('/dbfs/go'): time.sleep(0.1)\nprint('done')"
    command = user.begin(cluster, context, waits)
    until(lambda: watch.driver().busy, "nobody told that a command runs")
    clock.ahead_ms = 2 * MINUTES * 60_000
    last = watch.driver().last_activity_ms
    until(lambda: watch.driver().last_activity_ms > last, "the command is not counted as activity")
    assert user.get(cluster).state is State.RUNNING
    user.touch("/go")
    answer = user.finish(cluster, context, command)
    assert answer.results is not None and answer.results.data == "done"
    code, parameters, message = user.ended(cluster)
    assert (code, parameters) == ("INACTIVITY", {"inactivity_duration_min": str(MINUTES)})
    reason = user.get(cluster).termination_reason
    assert reason is not None and reason.type is TerminationReasonType.SUCCESS
    assert "10 minutes" in message
