"""A page of `list` and of `events` among 100 and among 100,000 rows: its cost must not depend on their number."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

from bench._client import CLUSTERS, Api, Load, load
from bench._harness import limited, medians, table, turns
from bench._servers import Served, brickyard, sqlite
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
            tx.clusters.insert(terminated(number, pinned=number % 10 == 0 and number < FEW))
            tx.clusters.schedule(f"c-{number:06}", None)
            kind = EventType.EDITED if number else EventType.NODES_LOST
            tx.events.append(ClusterEvent(cluster_id="c-000000", timestamp=NOW + number, type=kind))

    for start in range(0, rows, BATCH):
        store.write_sync(functools.partial(some, start))
    store.close()


def terminated(number: int, owner: str = "admin@brickyard.local", *, pinned: bool = False) -> Cluster:
    return Cluster(
        cluster_id=f"c-{number:06}",
        creator_user_name=owner,
        created_ms=NOW + number,
        spec=SPEC,
        request=SPEC,
        target=Target.TERMINATED,
        ended=True,
        terminated_ms=NOW + number,
        pinned_ms=NOW if pinned else 0,
    )


@contextlib.contextmanager
def filled(rows: int) -> Iterator[Served]:
    """A server whose database has this many rows."""
    with sqlite() as url:
        fill(url, rows)
        with brickyard(database_url=url) as served:
            yield served


def calls(served: Served) -> dict[str, tuple[str, str, str]]:
    """Name -> method, path, body of each measured page."""
    api = Api(served.url)
    lists, events = f"{CLUSTERS}/list?page_size=50", f"{CLUSTERS}/events"
    token = urllib.parse.quote(api.get(lists)["next_page_token"])
    asked: dict[str, Any] = {"cluster_id": "c-000000", "limit": 50}
    rare = {"cluster_id": "c-000000", "event_types": ["NODES_LOST"], "page_size": 50}
    return {
        "list, first page": ("GET", lists, ""),
        "list, second page": ("GET", f"{lists}&page_token={token}", ""),
        "list, by name": ("GET", f"{lists}&sort_by.field=CLUSTER_NAME", ""),
        "list, terminated": ("GET", f"{lists}&filter_by.cluster_states=TERMINATED", ""),
        "list, running (none)": ("GET", f"{lists}&filter_by.cluster_states=RUNNING", ""),
        "list, pinned (10)": ("GET", f"{lists}&filter_by.is_pinned=true", ""),
        "events, first page": ("POST", events, json.dumps(asked)),
        "events, second page": ("POST", events, json.dumps(api.post(events, **asked)["next_page"])),
        "events, of a rare type (1)": ("POST", events, json.dumps(rare)),
    }


def page(served: Served, method: str, path: str, body: str) -> Load:
    return load(served.pid, method, served.url + path, body=body, requests=REQUESTS, rounds=1, width=2)


def main() -> int:
    rows = []
    with filled(FEW) as small, filled(MANY) as large:
        for (name, one), other in zip(calls(small).items(), calls(large).values(), strict=True):
            works = {"few": functools.partial(page, small, *one), "many": functools.partial(page, large, *other)}
            few, many = (medians(Load, each) for each in turns(ROUNDS, works).values())
            rows.append([name, few.cpu_us, many.cpu_us, *limited(many.cpu_us / few.cpu_us, LIMIT), few.rate / many.rate])
    return table(
        f"Pages of 50 among {FEW} and {MANY} rows",
        ["page", f"CPU us, {FEW}", f"CPU us, {MANY}", "ratio of CPU", "at most", "ratio of time"],
        rows,
    )


if __name__ == "__main__":
    sys.exit(main())
