"""The API's rate and CPU cost, against the peer `minilake` and a bare ASGI echo, in one run.

Nodes send no samples of what they use meanwhile: the simulated ones live in the server's process, so that their part would count
as the server's, and the 2,000 of this workspace would take a tenth of a core. `./dev bench attachments` measures samples.

minilake's `create` starts nothing. Ours starts nodes, which here live in the server's process, so `create` is measured a second
time with nodes that are launched and then stay silent.

`list` is every cluster in one answer, as minilake gives it; `page` is the first 20 of them, as clients ask for today.

Exits with 1 if a limit is missed: CPU of `get` against the echo, CPU of a page, rate of `create` against minilake.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from bench._client import BODY, CLUSTERS, Api, Load, load
from bench._harness import Row, judged, medians, options, table
from bench._servers import NO_SAMPLES, SILENT, Served, brickyard, echo, minilake

MANY = 1_000
PAGE = 20
CALLS = ("get", "list", "page", "create")
GET_ECHOS, PAGE_MS, CREATE_RATE = 1.5, 2.0, 2.0
# Whether a call keeps its limit, given our load, the peer's and the floor's; and the limit.
LIMITS: dict[str, tuple[Callable[[Load, Load, Load], bool], str]] = {
    "get": (lambda own, _, floor: own.cpu_us <= GET_ECHOS * floor.cpu_us, f"at most {GET_ECHOS:g} echos' CPU"),
    "page": (lambda own, *_: own.cpu_us <= PAGE_MS * 1000, f"at most {PAGE_MS * 1000:g} us"),
    "create": (lambda own, peer, _: own.rate >= CREATE_RATE * peer.rate, f"at least {CREATE_RATE:g}x minilake's rate"),
}


def creates(served: Served) -> Load:
    """Measures `create`, and what clusters do meanwhile."""
    return load(served.pid, "POST", f"{served.url}{CLUSTERS}/create", body=BODY, requests=150, rounds=3)


def measure(served: Served, lists: str) -> dict[str, Load]:
    """Measures the calls; `lists` is the API version whose list has no pages, so that both servers return every cluster."""
    api = Api(served.url)
    create = creates(served)
    names = [api.post(f"{CLUSTERS}/create", **json.loads(BODY))["cluster_id"] for _ in range(max(0, MANY - 480))]
    # Our clusters go on starting after the answer; the next measurement needs a workspace at rest.
    api.all_running(lists)
    one, every, page = f"{CLUSTERS}/get?cluster_id={names[0]}", f"/api/{lists}/clusters/list", f"{CLUSTERS}/list?page_size={PAGE}"
    return {
        "get": load(served.pid, "GET", served.url + one, requests=3_000),
        "list": load(served.pid, "GET", served.url + every, requests=20, rounds=3, width=2),
        "page": load(served.pid, "GET", served.url + page, requests=400, rounds=3, width=2),
        "create": create,
    }


def main() -> int:
    rounds = options(__doc__, rounds=3).rounds
    found: dict[tuple[str, str], list[Load]] = {}
    for _ in range(rounds):
        with echo() as served:
            found.setdefault(("echo", "any"), []).append(load(served.pid, "GET", served.url, requests=3_000))
        for who, make, lists in (("peer", minilake(), "2.1"), ("own", brickyard(NO_SAMPLES), "2.0")):
            with make as served:
                for name, each in measure(served, lists).items():
                    found.setdefault((who, name), []).append(each)
        with brickyard(SILENT) as served:
            found.setdefault(("silent", "create"), []).append(creates(served))
    middle = {key: medians(Load, each) for key, each in found.items()}
    floor = middle["echo", "any"]
    rows: list[Row] = [["ASGI echo", "any", floor.rate, floor.cpu_us, "", "", ""]]
    for name in CALLS:
        peer, own = middle["peer", name], middle["own", name]
        for who, title in (
            ("peer", "minilake (in memory)"),
            ("own", "Brickyard (durable)"),
            ("silent", "Brickyard (durable), silent nodes"),
        ):
            if (who, name) not in middle or (who, name) == ("peer", "page"):  # minilake has no pages
                continue
            each, limit = middle[who, name], ""
            if who == "own" and name in LIMITS:
                keeps, text = LIMITS[name]
                limit = judged(text, keeps(own, peer, floor))
            against = each.rate / peer.rate if name != "page" else ""
            rows.append([title, name, *each, against, each.cpu_us / floor.cpu_us, limit])
    return table(
        f"API, {MANY} clusters, pages of {PAGE}, medians of {rounds} rounds",
        ["server", "call", "requests/s", "CPU us/request", "rate / minilake", "CPU / echo", "limit"],
        rows,
    )


if __name__ == "__main__":
    sys.exit(main())
