"""What attachments add to a start: of a cluster with nothing, one with three init scripts that do nothing, and one with a library
whose wheel the machine has in its cache, in turn and in changing order.

One start differs from the next by more than the limits, so the medians of the differences within a round count, of as many rounds
as fit into the time.
"""

from __future__ import annotations

import base64
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench._client import Api
from bench._harness import PREFIX, RUNTIME, Row, limited, table
from bench._servers import brickyard
from bench.start import NODE_TYPE, install
from tests.support.packages import make_wheel

SECONDS, MIN_ROUNDS = 90.0, 3
SCRIPTS_S, WHEEL_S = 0.15, 1.5
SCRIPT, WHEEL = "/nothing.sh", "/benched-1.0-py3-none-any.whl"
KINDS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "scripts": {"init_scripts": [{"dbfs": {"destination": f"dbfs:{SCRIPT}"}}] * 3},
    "wheel": {},
}


def main(seconds: float = SECONDS) -> int:
    install()
    rounds = list[dict[str, float]]()
    with brickyard(provider="local") as served, tempfile.TemporaryDirectory(prefix=PREFIX) as place:
        api = Api(served.url)
        for path, content in ((SCRIPT, b"#!/bin/sh\n"), (WHEEL, make_wheel(Path(place), "benched").read_bytes())):
            api.post("/api/2.0/dbfs/put", path=path, contents=base64.b64encode(content).decode(), overwrite=True)
        clusters = {name: _create(api, name, fields) for name, fields in KINDS.items()}
        api.post("/api/2.0/libraries/install", cluster_id=clusters["wheel"], libraries=[{"whl": f"dbfs:{WHEEL}"}])
        for name in KINDS:  # reads the runtime's files from the disk, and fills the cache of wheels
            _started(api, clusters[name])
        ends = time.monotonic() + seconds
        while time.monotonic() < ends or len(rounds) < MIN_ROUNDS:
            order = list(KINDS) if len(rounds) % 2 else list(KINDS)[::-1]
            rounds.append({name: _started(api, clusters[name]) for name in order})
    alone = statistics.median(each["nothing"] for each in rounds)
    rows: list[Row] = []
    for name, what, limit in (("scripts", "three init scripts that do nothing", SCRIPTS_S), ("wheel", "a cached wheel", WHEEL_S)):
        added = [each[name] - each["nothing"] for each in rounds]
        rows.append([what, alone, *limited(statistics.median(added), limit), f"{min(added):.2f} to {max(added):.2f}"])
    return table(
        f"Starts: a driver and one worker, start to RUNNING, s; medians of {len(rounds)} rounds",
        ["with", "without, s", "added, s", "at most", "fastest to slowest"],
        rows,
    )


def _create(api: Api, name: str, fields: dict[str, Any]) -> str:
    """A cluster that has ended, so that its next start is like all others."""
    cluster_id = api.create(name, spark_version=RUNTIME, node_type_id=NODE_TYPE, **fields)
    api.end(cluster_id)
    return cluster_id


def _started(api: Api, cluster_id: str) -> float:
    """Seconds from the call until it is RUNNING. It is ended afterwards."""
    began = time.monotonic()
    api.post("/api/2.1/clusters/start", cluster_id=cluster_id)
    api.running(cluster_id)
    took = time.monotonic() - began
    api.end(cluster_id)
    return took
