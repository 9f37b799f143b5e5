"""What followers of one log cost the driver's node: processor time of its agent while 50 follow a log that is being written."""

from __future__ import annotations

import http.client
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

from bench._client import ALONE, Api
from bench._harness import RUNTIME, cpu_s, judged, table
from bench._servers import TOKEN, Served, agents, brickyard
from bench.start import NODE_TYPE, install

FOLLOWERS, SECONDS = 50, 15.0
LINES_PER_S = 50
PERCENT = 5.0  # of a core, more than without followers


def main() -> int:
    install()
    with brickyard(provider="local") as served:
        api = Api(served.url)
        with api.cluster("logs", spark_version=RUNTIME, node_type_id=NODE_TYPE, **ALONE) as cluster_id:
            listed = api.get(f"/api/2.1/clusters/logs/list?cluster_id={cluster_id}")
            name = next(each["file"] for each in listed["files"] if each["file"].endswith("/stdout"))
            (instance,), (agent,) = Path(served.place, "instances").iterdir(), agents(served)
            log = instance / "node" / "logs" / "stdout"
            alone, _ = _share(agent, log)
            followers = [Reading(served, cluster_id, name) for _ in range(FOLLOWERS)]
            with_them, written = _share(agent, log)
            behind = sum(each.received < written for each in followers)
    added = with_them - alone
    return table(
        f"Logs: {FOLLOWERS} followers of one log of {LINES_PER_S} lines a second",
        ("the agent without them, % of a core", "with them", "more", "at most", "followers that missed something"),
        [(alone, with_them, judged(added, added <= PERCENT), PERCENT, judged(behind, not behind))],
    )


class Reading(threading.Thread):
    """One follower, which counts the bytes that it receives, from the log's beginning."""

    def __init__(self, served: Served, cluster_id: str, name: str) -> None:
        super().__init__(daemon=True)
        self.received = 0
        self._connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=60)
        path = f"/api/2.1/clusters/logs/follow?cluster_id={cluster_id}&file={quote(name)}"
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        self._answer = self._connection.getresponse()
        if self._answer.status != 200:
            raise RuntimeError(f"{path} answered {self._answer.status}: {self._answer.read()!r}")
        self.start()

    def run(self) -> None:
        while data := self._answer.read1(64 << 10):
            self.received += len(data)


def _share(agent: int, log: Path) -> tuple[float, int]:
    """Percent of a core that the agent needs while the log is written, and the log's size then."""
    before, ends, lines = cpu_s(agent), time.monotonic() + SECONDS, 0
    with log.open("ab", buffering=0) as out:
        while time.monotonic() < ends:
            out.write(b"a line of a log, as long as many are: 0123456789 0123456789\n")
            lines += 1
            time.sleep(1 / LINES_PER_S)
    used = cpu_s(agent) - before
    size = log.stat().st_size
    time.sleep(2)  # for the followers to receive the last of it
    return 100 * used / SECONDS, size
