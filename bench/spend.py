"""Spend among the charges of 100,000 clusters: the calls of the Spend page, the page itself (it takes Chromium), what the
server's memory grows by, and how long others wait meanwhile."""

from __future__ import annotations

import contextlib
import functools
import statistics
import sys
import threading
import time
from collections.abc import Iterator

from playwright.sync_api import expect

from bench._client import Api
from bench._harness import Row, rss_mib, table, timed
from bench._servers import Served, brickyard, sqlite
from bench.page import PATIENCE_MS, browser, opened, row
from brickyard.domain.spend import Charge
from brickyard.store.store import Store
from brickyard.store.tx import Tx

CLUSTERS, NODES, DAYS = 100_000, 3, 90
BATCH = 5_000
ROUNDS = 3
HOUR_MS, DAY_MS = 3_600_000, 24 * 3_600_000
WEEK_S, QUARTER_S = 1.0, 10.0  # at most, of a call
WAIT_MS = 500  # at most, of another call meanwhile
GROWTH_MIB = 256
GROUPINGS = ("creator", "cluster", "day,cluster")


def fill(url: str, now: int) -> None:
    """Inserts the charges: as many clusters begin on each day."""
    store = Store.open(url)

    def some(start: int, tx: Tx) -> None:
        numbers = range(start, start + BATCH)
        tx.charges.write([], [_charge(number, node, now) for number in numbers for node in range(NODES)])

    for start in range(0, CLUSTERS, BATCH):
        store.write_sync(functools.partial(some, start))
    store.close()


def _charge(number: int, node: int, now: int) -> Charge:
    started = now - number * DAYS * DAY_MS // CLUSTERS - 3 * HOUR_MS
    return Charge(
        cluster_id=f"c-{number:06}",
        instance_id=f"i-{number:06}-{node}",
        started_ms=started,
        ended_ms=started + 2 * HOUR_MS,
        price_per_hour=0.312,
        currency="USD",
        node_type_id="i3.xlarge",
        role="worker" if node else "driver",
        creator_user_name=f"user{number % 300}@example.com",
        cluster_name=f"job {number}",
        tags={"team": f"team {number % 20}"},
    )


@contextlib.contextmanager
def waits(served: Served) -> Iterator[list[float]]:
    """How long each of many small calls takes, in ms, one after the other."""
    found: list[float] = []
    over = threading.Event()

    def ask() -> None:
        api = Api(served.url)
        while not over.is_set():
            found.append(timed(lambda: api.get("/api/2.0/preview/scim/v2/Me")) * 1000)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def calls(served: Served, now: int) -> list[Row]:
    api, rows = Api(served.url), []
    budget = {"display_name": "all", "amount": 1_000_000, "currency": "USD"}
    api.post("/api/2.1/budgets", **budget)
    for days, most in ((7, WEEK_S), (DAYS, QUARTER_S)):
        for by in GROUPINGS:
            path = f"/api/2.1/spend?start_time={now - days * DAY_MS}&group_by={by}"
            took = [timed(functools.partial(api.get, path)) for _ in range(ROUNDS)]
            rows.append(_seconds(f"{days} days, by {by.replace(',', ' and ')}", took, most))
    rows.append(
        _seconds("budgets, of this month", [timed(lambda: api.get("/api/2.1/budgets")) for _ in range(ROUNDS)], QUARTER_S)
    )
    return rows


def _seconds(what: str, took: list[float], most: float) -> Row:
    return row(what, [each * 1000 for each in took], "ms", most * 1000)


def page(served: Served) -> list[Row]:
    """Until the sums, the chart and the table are drawn."""
    rows = []
    with browser() as chromium:
        for name, path, most in (
            ("a week", "/spend", 5 * WEEK_S),
            ("90 days by cluster", "/spend?range=90d&by=cluster", 3 * QUARTER_S),
        ):
            took = []
            for _ in range(ROUNDS):
                with opened(chromium, served, slowdown=1) as opened_page:
                    began = time.perf_counter()
                    opened_page.goto(served.url + path, wait_until="commit")
                    expect(opened_page.locator(".totals")).to_contain_text("$", timeout=PATIENCE_MS)
                    expect(opened_page.locator("tbody tr").first).to_be_visible(timeout=PATIENCE_MS)
                    expect(opened_page.locator("main [aria-busy=true]")).to_have_count(0, timeout=PATIENCE_MS)
                    took.append(time.perf_counter() - began)
            rows.append(_seconds(f"the page, {name}", took, most))
    return rows


def main() -> int:
    now = int(time.time() * 1000)
    with sqlite() as url:
        fill(url, now)
        with brickyard(database_url=url) as served:
            before = rss_mib(served.pid)
            with waits(served) as waited:
                rows = calls(served, now)
            rows.append(row("another call meanwhile", [max(waited)], "ms at most", WAIT_MS))
            rows.append(row("another call meanwhile, median", [statistics.median(waited)], "ms", None))
            rows.append(row("memory that the server has taken more", [rss_mib(served.pid) - before], "MiB", GROWTH_MIB))
            rows += page(served)
    title = f"Spend among {CLUSTERS * NODES:,} charges of {CLUSTERS:,} clusters, medians of {ROUNDS} rounds"
    return table(title, ["what", "median (fastest-slowest)", "at most"], rows)


if __name__ == "__main__":
    sys.exit(main())
