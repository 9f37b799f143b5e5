"""What a call costs in the /v1/clusters dialect, beside the same call in the Databricks one: the server's processor time, as the
median of alternating rounds. Alone: `./dev python -m bench._v1_calls`."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from bench._client import SIZE, Api, load
from bench._harness import Row, cpu_s, limited, table, turns
from bench._servers import SILENT, Served, brickyard

LIMIT = 1.2  # of the other dialect's time
ROUNDS = 5
CLUSTERS = 20  # of a page
WIDTH = 16  # requests at a time
REST_S, REST_CPU_S = 1.0, 0.1
NUMBERS = itertools.count(1)
ALONE = {**SIZE, "is_single_node": True, "kind": "CLASSIC_PREVIEW"}


class _Call(NamedTuple):
    """`body` is made from a number. `works`: the server goes on with what it has begun once it has answered."""

    method: str
    path: str
    body: Callable[[int], str] = lambda _: ""
    requests: int = 2000
    works: bool = False


def measure() -> list[Row]:
    """One server with simulated nodes, which say nothing meanwhile."""
    with brickyard(SILENT) as served:
        api = Api(served.url)
        ids = [api.post("/v1/clusters", **json.loads(_named(number)))["data"]["id"] for number in range(CLUSTERS)]
        stopped = api.post("/v1/clusters", name="stopped", auto_start=False)["data"]["id"]
        pairs = {
            "get of a stopped cluster": (_get(stopped), _get_v1(stopped)),
            "get of a cluster that starts": (_get(ids[0]), _get_v1(ids[0])),
            "a page of 20 clusters": (
                _Call("GET", "/api/2.1/clusters/list?page_size=20", requests=300),
                _Call("GET", "/v1/clusters?limit=20", requests=300),
            ),
            "create": (
                _Call("POST", "/api/2.1/clusters/create", _named_there, requests=100, works=True),
                _Call("POST", "/v1/clusters", _named, requests=100, works=True),
            ),
        }
        return [_compared(served, what, *pair) for what, pair in pairs.items()]


def _get(cluster_id: str) -> _Call:
    return _Call("GET", f"/api/2.1/clusters/get?cluster_id={cluster_id}")


def _get_v1(cluster_id: str) -> _Call:
    return _Call("GET", f"/v1/clusters/{cluster_id}")


def _named(number: int) -> str:
    return json.dumps({"name": f"c-{number}", "cpu_cores": 4})


def _named_there(number: int) -> str:
    return json.dumps({"cluster_name": f"c-{number}", **ALONE})


def _compared(served: Served, what: str, there: _Call, here: _Call) -> Row:
    found = turns(ROUNDS, {"there": partial(_cpu_us, served, there), "here": partial(_cpu_us, served, here)})
    other, ours = map(statistics.median, found.values())
    return (what, f"{other:.0f}", f"{ours:.0f}", *limited(ours / other, LIMIT))


def _cpu_us(served: Served, asked: _Call) -> float:
    """What a request costs, and what the server does because of it: the same in both dialects, but not at the same time as the
    next round."""
    url, body = f"{served.url}{asked.path}", asked.body(next(NUMBERS))
    began = _at_rest(served) if asked.works else 0.0
    answering = load(
        served.pid, asked.method, url, body=body, requests=asked.requests, width=WIDTH, rounds=1, statuses=(200, 201)
    ).cpu_us
    if not asked.works:
        return answering
    warming_up = max(WIDTH, asked.requests // 5)
    return (_at_rest(served) - began) * 1e6 / (asked.requests + warming_up)


def _at_rest(served: Served) -> float:
    """Its CPU seconds, once it does next to nothing."""
    before, now = -1.0, cpu_s(served.pid)
    while now - before > REST_CPU_S:
        time.sleep(REST_S)
        before, now = now, cpu_s(served.pid)
    return now


def main() -> int:
    return table("the dialect of /v1/clusters", ("call", "Databricks, us", "/v1, us", "ratio", "at most"), measure())


if __name__ == "__main__":
    sys.exit(main())
