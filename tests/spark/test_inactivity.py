"""Auto-termination on real clusters, with a clock that jumps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import Kind, State, TerminationReasonType

from brickyard.domain.clock import SystemClock, WallClock
from brickyard.domain.node import NodeStatus
from brickyard.reconcile import clusters
from brickyard.store.store import Store
from tests.spark.live import User
from tests.spark.neighbours import neighbour
from tests.support.patience import until
from tests.support.runtimes import OTHER, SPARK_4
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


@pytest.mark.extended  # tests/plan/test_autoterminate.py ends idle clusters; tests/node/test_cluster_spark.py has activity
def test_a_running_command_keeps_a_cluster_that_would_end_otherwise(data: tuple[User, Watch], clock: JumpingClock) -> None:
    user, watch = data
    cluster = user.create("idle", OTHER, is_single_node=True, kind=Kind.CLASSIC_PREVIEW, autotermination_minutes=MINUTES)
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
    until(lambda: not watch.driver().busy, "nobody told that the command is over")

    def ends() -> bool:  # a report in between says how long it has really been idle
        clock.ahead_ms += 2 * MINUTES * 60_000
        return user.get(cluster).state is not State.RUNNING

    until(ends, "the idle cluster runs on")
    code, parameters, message = user.ended(cluster)
    assert (code, parameters) == ("INACTIVITY", {"inactivity_duration_min": str(MINUTES)})
    reason = user.get(cluster).termination_reason
    assert reason is not None and reason.type is TerminationReasonType.SUCCESS
    assert "10 minutes" in message


class Wall:
    """The clock on the wall of the server's machine, which can be set."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ns(self) -> int:
        return time.time_ns() + self.ahead_ms * 1_000_000


@pytest.mark.extended  # two clusters; tests/domain/test_clock.py sets clocks
def test_a_clock_that_is_set_ends_no_idle_cluster_and_what_is_to_stop_at_a_time_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "GRACE_MS", 0)  # else a new server ends none
    wall = Wall()
    clocks = {"clock": SystemClock(wall_ns=wall.now_ns), "wall": WallClock(wall_ns=wall.now_ns)}
    with Server.running(tmp_path / "workspace", **clocks) as server:  # type: ignore[arg-type] # clocks
        user = User(server.client())
        idle = user.create("idle", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW, autotermination_minutes=MINUTES)
        with neighbour(user, autotermination_minutes=MINUTES) as other:
            user.wait(idle, State.RUNNING)
            events = user.events(idle)
            at = time.gmtime(time.time() + 4 * MINUTES * 60)
            stop = {"action": "stop", "cron": f"{at.tm_min} {at.tm_hour} * * *"}
            user.w.api_client.do("POST", f"/v1/clusters/{idle}/schedules", body=stop)
            wall.ahead_ms = 2 * MINUTES * 60_000
            assert user.run(other.cluster_id, "print(6 * 7)") == "42"
            assert (user.get(idle).state, user.events(idle)) == (State.RUNNING, events)
            wall.ahead_ms = 6 * MINUTES * 60_000
            assert user.ended(idle)[0] == "USER_REQUEST"
