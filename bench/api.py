"""The API's rate and CPU cost, against the peer `minilake` and a bare ASGI echo, in one run.

Nodes send no samples of what they use meanwhile: the simulated ones live in the server's process, so that their part would count
as the server's, and the 2,000 of this workspace would take a tenth of a core. `./dev bench attachments` measures samples.

minilake's `create` starts nothing. Ours starts nodes, which here live in the server's process, so `create` is measured a second
time with nodes that are launched and then stay silent.

`list` is every cluster in one answer, as minilake gives it; `page` is the first 20 of them, as clients ask for today.

Exits with 1 if a limit is missed: CPU of `get` against the echo, CPU of a page, rate of `create` against minilake.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from typing import Any

from bench._common import Load, later_s, load, table
from bench._servers import NO_SAMPLES, SILENT, TOKEN, Served, brickyard, echo, minilake

CLUSTERS = 1_000
PAGE = 20
CALLS = ("get", "list", "page", "create")
GET_ECHOS, PAGE_MS, CREATE_RATE = 1.5, 2.0, 2.0
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


def creates(served: Served) -> Load:
    """Measures `create`, and what clusters do meanwhile."""
    url = f"{served.url}/api/2.1/clusters/create"
    return asyncio.run(load(served.pid, "POST", url, token=TOKEN, body=BODY, requests=150, rounds=3))


def measure(served: Served, lists: str) -> dict[str, Load]:
    """Measures the three calls; `lists` is the API version whose list has no pages, so that both servers return every cluster."""
    base = "/api/2.1/clusters"
    create = creates(served)
    names = [call(served, f"{base}/create", BODY)["cluster_id"] for _ in range(max(0, CLUSTERS - 480))]
    # Our clusters go on starting after the answer; the next measurement needs a workspace at rest.
    while any(each["state"] != "RUNNING" for each in call(served, f"/api/{lists}/clusters/list")["clusters"]):
        time.sleep(1)
    get = asyncio.run(load(served.pid, "GET", f"{served.url}{base}/get?cluster_id={names[0]}", token=TOKEN, requests=3_000))
    listed = asyncio.run(
        load(served.pid, "GET", f"{served.url}/api/{lists}/clusters/list", token=TOKEN, requests=20, rounds=3, width=2)
    )
    page = asyncio.run(
        load(served.pid, "GET", f"{served.url}{base}/list?page_size={PAGE}", token=TOKEN, requests=400, rounds=3, width=2)
    )
    return {"get": get, "list": listed, "page": page, "create": create}


def at_rest() -> AbstractContextManager[Served]:
    """Our server, whose nodes send no samples."""
    return brickyard(NO_SAMPLES)


def main() -> int:
    """Prints the table. Returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured, on fresh servers")
    floors: list[Load] = []
    peers: dict[str, list[Load]] = {name: [] for name in CALLS}
    ours: dict[str, list[Load]] = {name: [] for name in CALLS}
    silent: list[Load] = []
    for _ in range(parser.parse_args().rounds):
        with echo() as served:
            floors.append(asyncio.run(load(served.pid, "GET", served.url, token=TOKEN, requests=3_000)))
        for make, lists, found in ((minilake, "2.1", peers), (at_rest, "2.0", ours)):
            with make() as served:
                for name, each in measure(served, lists).items():
                    found[name].append(each)
        with brickyard(SILENT) as served:
            silent.append(creates(served))
    floor = median(floors)
    rows: list[list[object]] = [["ASGI echo", "any", floor.rate, floor.cpu_us, "", "", ""]]
    kept = True
    for name in CALLS:
        peer, own = median(peers[name]), median(ours[name])
        measured = [("Brickyard (durable)", own)]
        if name != "page":  # it has none
            measured.insert(0, ("minilake (in memory)", peer))
        if name == "create":
            measured.append(("Brickyard (durable), silent nodes", median(silent)))
        for who, each in measured:
            against, cost = f"{each.rate / peer.rate:.2f}" if name != "page" else "", f"{each.cpu_us / floor.cpu_us:.2f}"
            limit = ""
            if each is own and name in ("get", "page", "create"):
                fine, limit = judgement(name, own, peer, floor)
                kept = kept and fine
                limit = f"{limit} {'✓' if fine else '✗'}"
            rows.append([who, name, each.rate, each.cpu_us, against, cost, limit])
    table(
        f"API, {CLUSTERS} clusters, pages of {PAGE}, medians of {len(floors)} rounds",
        ["server", "call", "requests/s", "CPU us/request", "rate / minilake", "CPU / echo", "limit"],
        rows,
    )
    return 0 if kept else 1


def judgement(name: str, own: Load, peer: Load, floor: Load) -> tuple[bool, str]:
    """Whether a call keeps its limit, and the limit."""
    match name:
        case "get":
            return own.cpu_us <= GET_ECHOS * floor.cpu_us, f"at most {GET_ECHOS:g} echos' CPU"
        case "page":
            return own.cpu_us <= PAGE_MS * 1000, f"at most {PAGE_MS * 1000:g} us"
        case _:
            return own.rate >= CREATE_RATE * peer.rate, f"at least {CREATE_RATE:g}x minilake's rate"


def median(loads: list[Load]) -> Load:
    """The median rate and the median cost."""
    return Load(statistics.median(each.rate for each in loads), statistics.median(each.cpu_us for each in loads))


if __name__ == "__main__":
    sys.exit(main())
