"""What nodes cost beside Spark: processor time of the driver's agent and node host, idle and under load.

A cluster of a driver and a worker on isolated local nodes. Idle: nobody uses it, and nothing asks for it. Under load: queries
with many small tasks, one after the other, in a context. Both are measured for some time after a pause in which what a start
leaves to do gets done. The worker's agent and node host, and the driver's JVM, are shown without a limit.

Options: --seconds N, --runtime KEY. Exit code 1 when a share is above its limit (marked ✗).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psutil

from bench._client import Api
from bench._harness import RUNTIME, Row, cpu_s, limited, options, table
from bench._servers import agents, brickyard
from bench.start import NODE_TYPE, QUERY, install

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
    given = options(__doc__, seconds=60.0, runtime=RUNTIME)
    install(given.runtime)
    with brickyard(provider="local", isolation="required", connect_port="0") as served:
        api = Api(served.url)
        with api.cluster("idle", spark_version=given.runtime, node_type_id=NODE_TYPE) as cluster_id:
            api.first_result(cluster_id, QUERY)  # from here on there is a context, with its kernel
            nodes = [_node(pid) for pid in agents(served)]
            rows = list(_measured("idle", nodes, given.seconds, IDLE_MOST))
            api.begin(cluster_id, api.context(cluster_id), _LOAD.format(seconds=2 * SETTLE_S + given.seconds))
            rows += _measured("under load", nodes, given.seconds, LOAD_MOST)
    head = ["node", "agent", "node host", "together", "at most", "its JVM"]
    return table(f"Processor time of nodes beside Spark, percent of a core, over {given.seconds:g} s", head, rows)


def _measured(when: str, nodes: Sequence[Node], seconds: float, most: float) -> Iterator[Row]:
    time.sleep(SETTLE_S)
    before, began = [node.used() for node in nodes], time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    for node, then in sorted(zip(nodes, before, strict=True), key=lambda each: not each[0].driver):
        agent, host, jvm = (100 * (now - earlier) / took for now, earlier in zip(node.used(), then, strict=True))
        together = limited(agent + host, most if node.driver else None)
        yield [f"{'driver' if node.driver else 'worker'}, {when}", agent, host, *together, jvm]


def _node(agent: int) -> Node:
    below = psutil.Process(agent).children(recursive=True)
    host = next(each for each in below if each.cmdline()[-1:] == ["host"] and "python" in each.name())
    children = host.children()
    jvm = next(each for each in children if each.name() == "java")
    return Node(any("kernel" in each.cmdline() for each in children), agent, host.pid, jvm.pid)


if __name__ == "__main__":
    sys.exit(main())
