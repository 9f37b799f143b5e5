"""What nodes cost beside Spark: processor time of the driver's agent and node host, idle and under load.

A cluster of a driver and a worker on isolated local nodes. Idle: nobody uses it, and nothing asks for it. Under load: queries
with many small tasks, one after the other, in a context. Both are measured for some time after a pause in which what a start
leaves to do gets done. The worker's agent and node host, and the driver's JVM, are shown without a limit.

Options: --seconds N, --runtime KEY. Exit code 1 when a share is above its limit (marked ✗).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psutil

from bench._common import cpu_s, table
from bench._servers import agents, brickyard
from bench.start import NODE_TYPE, RUNTIMES, Api, install

SECONDS = 60.0
SETTLE_S = 20.0  # the load is told for 12 s after the last job, and samples are new
IDLE_MOST, LOAD_MOST = 0.5, 2.0  # percent of a core: the driver's agent and node host together
_LOAD = """
import time
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    spark.range(0, 400000, 1, 16).selectExpr("id % 7 AS k", "id AS v").groupBy("k").sum("v").collect()
print("done")
"""


class Node(NamedTuple):
    """The processes of one node."""

    driver: bool
    agent: int
    host: int
    jvm: int

    def used(self) -> tuple[float, float, float]:
        """Processor seconds so far."""
        return cpu_s(self.agent), cpu_s(self.host), cpu_s(self.jvm)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--runtime", default=RUNTIMES[0])
    options = parser.parse_args()
    install(options.runtime)
    with brickyard(provider="local", isolation="required", connect_port="0") as served:
        api = Api(served.url)
        spec = {"cluster_name": "idle", "spark_version": options.runtime, "node_type_id": NODE_TYPE, "num_workers": 1}
        cluster_id = api.call("POST", "/api/2.1/clusters/create", spec)["cluster_id"]
        get = f"/api/2.1/clusters/get?cluster_id={cluster_id}"
        try:
            api.until(get, "state", "RUNNING", ("TERMINATED", "TERMINATING", "ERROR"))
            api.first_result(cluster_id)  # from here on there is a context, with its kernel
            nodes = [_node(pid) for pid in agents(served)]
            rows = list(_measured("idle", nodes, options.seconds, IDLE_MOST))
            code = _LOAD.format(seconds=2 * SETTLE_S + options.seconds)
            where = {"clusterId": cluster_id, "language": "python"}
            context = api.call("POST", "/api/1.2/contexts/create", where)["id"]
            at = f"clusterId={cluster_id}&contextId={context}"
            api.until(f"/api/1.2/contexts/status?{at}", "status", "Running", ("Error",))
            api.call("POST", "/api/1.2/commands/execute", {**where, "contextId": context, "command": code})
            rows += _measured("under load", nodes, options.seconds, LOAD_MOST)
        finally:
            api.call("POST", "/api/2.1/clusters/delete", {"cluster_id": cluster_id})
            api.until(get, "state", "TERMINATED", ())
    head = ["node", "agent", "node host", "together", "at most", "its JVM"]
    table(f"Processor time of nodes beside Spark, percent of a core, over {options.seconds:g} s", head, rows)
    return 1 if any("✗" in str(cell) for row in rows for cell in row) else 0


def _measured(when: str, nodes: Sequence[Node], seconds: float, most: float) -> Iterator[list[object]]:
    time.sleep(SETTLE_S)
    before, began = [node.used() for node in nodes], time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    for node, then in sorted(zip(nodes, before, strict=True), key=lambda each: not each[0].driver):
        agent, host, jvm = (100 * (now - earlier) / took for now, earlier in zip(node.used(), then, strict=True))
        together, limit = f"{agent + host:.2f}", ""
        if node.driver:
            together, limit = f"{together} {'✓' if agent + host <= most else '✗'}", f"{most:g}"
        yield [f"{'driver' if node.driver else 'worker'}, {when}", agent, host, together, limit, jvm]


def _node(agent: int) -> Node:
    below = psutil.Process(agent).children(recursive=True)
    host = next(each for each in below if each.cmdline()[-1:] == ["host"] and "python" in each.name())
    children = host.children()
    jvm = next(each for each in children if each.name() == "java")
    return Node(any("kernel" in each.cmdline() for each in children), agent, host.pid, jvm.pid)


if __name__ == "__main__":
    sys.exit(main())
