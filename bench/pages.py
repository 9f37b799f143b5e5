"""A page of `list` and of `events` among 100 and among 100,000 rows: what it costs must not depend on how many there are."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
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
    """So many terminated clusters, ten of them pinned; and as many events of the first, one of them of another type."""
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
    """A server whose database has so many rows."""
    with tempfile.TemporaryDirectory(prefix="brickyard-bench-") as place:
        url = f"sqlite:///{Path(place) / 'pages.db'}"
        fill(url, rows)
        with brickyard(database_url=url) as served:
            yield served


def calls(served: Served) -> dict[str, tuple[str, str, str]]:
    """Name -> method, path, body of every page that is measured."""
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


def measure(rows: int) -> dict[str, Load]:
    with filled(rows) as served:
        found = {}
        for name, (method, path, body) in calls(served).items():
            found[name] = asyncio.run(
                load(served.pid, method, served.url + path, token=TOKEN, body=body, requests=300, rounds=3, width=2)
            )
        return found


def _call(served: Served, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(served.url + path, data=data, headers={"Authorization": f"Bearer {TOKEN}"})  # noqa: S310 - loopback
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - loopback
        found: dict[str, Any] = json.loads(answer.read())
        return found


def main() -> None:
    few, many = measure(FEW), measure(int(os.environ.get("BENCH_ROWS", MANY)))
    rows = [
        [name, few[name].cpu_us, many[name].cpu_us, many[name].cpu_us / few[name].cpu_us, few[name].rate / many[name].rate]
        for name in few
    ]
    table(
        f"Pages of 50 among {FEW} and {MANY} rows",
        ["page", f"CPU us, {FEW}", f"CPU us, {MANY}", "ratio of CPU", "ratio of time"],
        rows,
    )


if __name__ == "__main__":
    main()
