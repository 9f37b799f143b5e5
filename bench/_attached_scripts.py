"""What three init scripts that do nothing add to a start: the same cluster with and without them, in turn.

The difference of two starts is small against how much starts differ; what the scripts themselves take, as the nodes' agents
measured it, is what the limit is for.
"""

from __future__ import annotations

import base64
import re
import statistics
from pathlib import Path

from bench._common import table
from bench._servers import brickyard
from bench.start import NODE_TYPE, Api, install

RUNTIME, ROUNDS, LIMIT_S = "17.3.x-scala2.13", 6, 0.15
TOOK = re.compile(r"init scripts took ([0-9.]+) s")


def main(rounds: int = ROUNDS) -> int:
    install(RUNTIME)
    without, having = list[float](), list[float]()
    with brickyard(provider="local") as served:
        api = Api(served.url)
        script = base64.b64encode(b"#!/bin/sh\n").decode()
        api.call("POST", "/api/2.0/dbfs/put", {"path": "/nothing.sh", "contents": script, "overwrite": True})
        scripts = [{"dbfs": {"destination": "dbfs:/nothing.sh"}}] * 3
        for number in range(rounds + 1):
            fields = {"spark_version": RUNTIME, "node_type_id": NODE_TYPE}
            took = api.start(**fields).ready, api.start(**fields, init_scripts=scripts).ready
            if number:  # the first round reads the runtime's files from the disk
                without.append(took[0])
                having.append(took[1])
        logs = (path.read_text() for path in Path(served.place, "logs").rglob("agent.log"))
        own = [float(found) for text in logs for found in TOOK.findall(text)]
    median, added = statistics.median(own), statistics.median(having) - statistics.median(without)
    mark = f" (fastest {min(own):.3f})" + ("" if median <= LIMIT_S else " ✗")
    table(
        f"Three init scripts that do nothing, a driver and one worker, medians of {rounds} starts",
        ["RUNNING without, s", "with, s", "difference, s", "the scripts on one node, s", "at most"],
        [[statistics.median(without), statistics.median(having), added, f"{median:.3f}{mark}", LIMIT_S]],
    )
    return int(median > LIMIT_S)
