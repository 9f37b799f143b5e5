"""What attachments add to a start: of a cluster with nothing, one with three init scripts that do nothing, and one with a library
whose wheel the machine has in its cache, in turn and in changing order.

One start differs from the next by more than the limits, so the medians of the differences within a round count, of as many rounds
as fit into the time.
"""

from __future__ import annotations

import base64
import io
import statistics
import time
import zipfile
from typing import Any

from bench._common import table
from bench._servers import brickyard
from bench.start import NODE_TYPE, Api, install

RUNTIME, SECONDS, MIN_ROUNDS = "17.3.x-scala2.13", 90.0, 3
SCRIPTS_S, WHEEL_S = 0.15, 1.5
SCRIPT, WHEEL = "/nothing.sh", "/benched-1.0-py3-none-any.whl"
KINDS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "scripts": {"init_scripts": [{"dbfs": {"destination": f"dbfs:{SCRIPT}"}}] * 3},
    "wheel": {},
}


def main(seconds: float = SECONDS) -> int:
    """Prints the table. Returns 1 if a limit is missed."""
    install(RUNTIME)
    rounds = list[dict[str, float]]()
    with brickyard(provider="local") as served:
        api = Api(served.url)
        for path, content in ((SCRIPT, b"#!/bin/sh\n"), (WHEEL, _wheel())):
            put = {"path": path, "contents": base64.b64encode(content).decode(), "overwrite": True}
            api.call("POST", "/api/2.0/dbfs/put", put)
        clusters = {name: _create(api, name, fields) for name, fields in KINDS.items()}
        library = {"cluster_id": clusters["wheel"], "libraries": [{"whl": f"dbfs:{WHEEL}"}]}
        api.call("POST", "/api/2.0/libraries/install", library)
        for name in KINDS:  # reads the runtime's files from the disk, and fills the cache of wheels
            _started(api, clusters[name])
        ends = time.monotonic() + seconds
        while time.monotonic() < ends or len(rounds) < MIN_ROUNDS:
            order = list(KINDS) if len(rounds) % 2 else list(KINDS)[::-1]
            rounds.append({name: _started(api, clusters[name]) for name in order})
    alone = statistics.median(each["nothing"] for each in rounds)
    rows, good = list[list[object]](), True
    for name, what, limit in (("scripts", "three init scripts that do nothing", SCRIPTS_S), ("wheel", "a cached wheel", WHEEL_S)):
        added = [each[name] - each["nothing"] for each in rounds]
        median = statistics.median(added)
        good = good and median <= limit
        spread = f"{min(added):.2f} to {max(added):.2f}"
        rows.append([what, alone, median, spread, "✓" if median <= limit else "✗", limit])
    table(
        f"Starts: a driver and one worker, start to RUNNING, s; medians of {len(rounds)} rounds",
        ["with", "without, s", "added, s", "fastest to slowest", "", "at most"],
        rows,
    )
    return int(not good)


def _create(api: Api, name: str, fields: dict[str, Any]) -> str:
    """A cluster that has ended, so that its next start is like all others."""
    spec = {"cluster_name": name, "num_workers": 1, "spark_version": RUNTIME, "node_type_id": NODE_TYPE, **fields}
    cluster_id = str(api.call("POST", "/api/2.1/clusters/create", spec)["cluster_id"])
    _end(api, cluster_id)
    return cluster_id


def _started(api: Api, cluster_id: str) -> float:
    """Seconds from the call until it is RUNNING. It is ended afterwards."""
    began = time.monotonic()
    api.call("POST", "/api/2.1/clusters/start", {"cluster_id": cluster_id})
    api.until(f"/api/2.1/clusters/get?cluster_id={cluster_id}", "state", "RUNNING", ("TERMINATED", "TERMINATING", "ERROR"))
    took = time.monotonic() - began
    _end(api, cluster_id)
    return took


def _end(api: Api, cluster_id: str) -> None:
    api.call("POST", "/api/2.1/clusters/delete", {"cluster_id": cluster_id})
    api.until(f"/api/2.1/clusters/get?cluster_id={cluster_id}", "state", "TERMINATED", ())


def _wheel() -> bytes:
    about, made = "benched-1.0.dist-info", io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("benched.py", "VALUE = 1\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: benched\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return made.getvalue()


if __name__ == "__main__":
    raise SystemExit(main())
