"""A page of `list` and of `events` among 100 and among 100,000 rows: its cost must not depend on their number."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import statistics
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench._common import Load, load, table
from bench._servers import TOKEN, Served, brickyard
from brickyard.domain.cluster import Cluster, Target
from brickyard.domain.events import ClusterEvent, EventType
from brickyard.domain.spec import ClusterSpec
from brickyard.store.store import Store
from brickyard.store.tx import Tx

FEW, MANY = 100, 100_000
BATCH = 5_000
ROUNDS, REQUESTS = 5, 250
LIMIT = 1.5
NOW = int(time.time() * 1000) - 24 * 3_600_000  # yesterday: retention leaves the rows alone
SPEC = ClusterSpec(
    cluster_name="b",
    spark_version="17.3.x-scala2.13",
    node_type_id="i3.xlarge",
    driver_node_type_id="i3.xlarge",
    num_workers=2,
    autotermination_minutes=0,
)


def fill(url: str, rows: int) -> None:
    """Inserts this many terminated clusters, ten of them pinned, and as many events of the first, one of them of another type."""
    store = Store.open(url)

    def some(start: int, tx: Tx) -> None:
        for number in range(start, min(start + BATCH, rows)):
            tx.clusters.insert(_cluster(number))
            tx.clusters.schedule(f"c-{number:06}", None)
            kind = EventType.EDITED if number else EventType.NODES_LOST
            tx.events.append(ClusterEvent(cluster_id="c-000000", timestamp=NOW + number, type=kind))

    for start in range(0, rows, BATCH):
        store.write_sync(functools.partial(some, start))
    store.close()


def _cluster(number: int) -> Cluster:
    return Cluster(
        cluster_id=f"c-{number:06}",
        creator_user_name="admin@brickyard.local",
        created_ms=NOW + number,
        spec=SPEC,
        request=SPEC,
        target=Target.TERMINATED,
        ended=True,
        terminated_ms=NOW + number,
        pinned_ms=NOW if number % 10 == 0 and number < FEW else 0,
    )


@contextlib.contextmanager
def filled(rows: int) -> Iterator[Served]:
    """A server whose database has this many rows."""
    with tempfile.TemporaryDirectory(prefix="brickyard-bench-") as place:
        url = f"sqlite:///{Path(place) / 'pages.db'}"
        fill(url, rows)
        with brickyard(database_url=url) as served:
            yield served


def calls(served: Served) -> dict[str, tuple[str, str, str]]:
    """Name -> method, path, body of each measured page."""
    lists, events = "/api/2.1/clusters/list?page_size=50", "/api/2.1/clusters/events"
    first = _call(served, lists)
    asked: dict[str, Any] = {"cluster_id": "c-000000", "limit": 50}
    following = _call(served, events, asked)["next_page"]
    return {
        "list, first page": ("GET", lists, ""),
        "list, second page": ("GET", f"{lists}&page_token={urllib.parse.quote(first['next_page_token'])}", ""),
        "list, by name": ("GET", f"{lists}&sort_by.field=CLUSTER_NAME", ""),
        "list, terminated": ("GET", f"{lists}&filter_by.cluster_states=TERMINATED", ""),
        "list, running (none)": ("GET", f"{lists}&filter_by.cluster_states=RUNNING", ""),
        "list, pinned (10)": ("GET", f"{lists}&filter_by.is_pinned=true", ""),
        "events, first page": ("POST", events, json.dumps(asked)),
        "events, second page": ("POST", events, json.dumps(following)),
        "events, of a rare type (1)": (
            "POST",
            events,
            json.dumps({"cluster_id": "c-000000", "event_types": ["NODES_LOST"], "page_size": 50}),
        ),
    }


def measure(servers: Sequence[Served]) -> dict[str, list[Load]]:
    """Measures each page once on each server. The servers take turns, so that other work on the machine affects all of them."""
    pages = [calls(served) for served in servers]
    found: dict[str, list[Load]] = {}
    for name in pages[0]:
        rounds = [[_round(served, *page[name]) for served, page in zip(servers, pages, strict=True)] for _ in range(ROUNDS)]
        found[name] = [
            Load(statistics.median(each.rate for each in one), statistics.median(each.cpu_us for each in one))
            for one in zip(*rounds, strict=True)
        ]
    return found


def _round(served: Served, method: str, path: str, body: str) -> Load:
    return asyncio.run(load(served.pid, method, served.url + path, token=TOKEN, body=body, requests=REQUESTS, rounds=1, width=2))


def _call(served: Served, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(served.url + path, data=data, headers={"Authorization": f"Bearer {TOKEN}"})  # noqa: S310 - loopback
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - loopback
        found: dict[str, Any] = json.loads(answer.read())
        return found


def main() -> int:
    with filled(FEW) as small, filled(MANY) as large:
        found = measure((small, large))
    rows = [
        [name, few.cpu_us, many.cpu_us, many.cpu_us / few.cpu_us, few.rate / many.rate] for name, (few, many) in found.items()
    ]
    table(
        f"Pages of 50 among {FEW} and {MANY} rows",
        ["page", f"CPU us, {FEW}", f"CPU us, {MANY}", "ratio of CPU", "ratio of time"],
        rows,
    )
    missed = [name for name, (few, many) in found.items() if many.cpu_us > LIMIT * few.cpu_us]
    if missed:
        print(f"\nMore than {LIMIT} times the CPU among {MANY} rows: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
