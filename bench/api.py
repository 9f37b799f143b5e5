"""The API's rate and CPU cost, against the peer `minilake` and a bare ASGI echo, in one run."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from typing import Any

from bench._common import Load, later_s, load, table
from bench._servers import TOKEN, Served, brickyard, echo, minilake

CLUSTERS = 1_000
BODY = json.dumps({"cluster_name": "b", "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1})


def call(served: Served, path: str, body: str = "") -> dict[str, Any]:
    """One request; it waits when the server asks it to, as every client does."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(served.url + path, data=body.encode() or None, headers=headers)  # noqa: S310 - loopback
    while True:
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310 - loopback
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except urllib.error.HTTPError as error:
            if (wait_s := later_s(error.code, error.headers.get("Retry-After"))) is None:
                raise
            time.sleep(wait_s)


def measure(served: Served, lists: str) -> dict[str, Load]:
    """Measures the three calls; `lists` is the API version whose list has no pages, so that both servers return every cluster."""
    base = "/api/2.1/clusters"
    create = asyncio.run(load(served.pid, "POST", f"{served.url}{base}/create", token=TOKEN, body=BODY, requests=150, rounds=3))
    names = [call(served, f"{base}/create", BODY)["cluster_id"] for _ in range(max(0, CLUSTERS - 480))]
    # Our clusters go on starting after the answer; the next measurement needs a workspace at rest.
    while any(each["state"] != "RUNNING" for each in call(served, f"/api/{lists}/clusters/list")["clusters"]):
        time.sleep(1)
    get = asyncio.run(load(served.pid, "GET", f"{served.url}{base}/get?cluster_id={names[0]}", token=TOKEN, requests=3_000))
    listed = asyncio.run(
        load(served.pid, "GET", f"{served.url}/api/{lists}/clusters/list", token=TOKEN, requests=20, rounds=3, width=2)
    )
    return {"get": get, "list": listed, "create": create}


def main() -> None:
    with echo() as served:
        floor = asyncio.run(load(served.pid, "GET", served.url, token=TOKEN, requests=3_000))
    with minilake() as served:
        peer = measure(served, "2.1")
    with brickyard() as served:
        ours = measure(served, "2.0")
    rows = [["ASGI echo", "any", floor.rate, floor.cpu_us, "", ""]]
    for name in ("get", "list", "create"):
        for who, found in (("minilake (in memory)", peer), ("Brickyard (durable)", ours)):
            against = found[name].rate / peer[name].rate
            rows.append(
                [who, name, found[name].rate, found[name].cpu_us, f"{against:.2f}", f"{found[name].cpu_us / floor.cpu_us:.2f}"]
            )
    table(
        f"API, {CLUSTERS} clusters",
        ["server", "call", "requests/s", "CPU us/request", "rate / minilake", "CPU / echo"],
        rows,
    )


if __name__ == "__main__":
    main()
