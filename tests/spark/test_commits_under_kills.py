"""Two clusters write one table while their processes and the server are killed: no commit is lost, and none is done twice."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import Any

import msgspec
import psutil
import pytest
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import CommandStatus, Kind, ResultType, State

from tests.spark.layers import with_layers
from tests.spark.live import JVM, Live
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_3, SPARK_4

WHOLE_S = float(os.environ.get("BRICKYARD_TEST_KILLS_S", "90"))  # while so long, something is killed again and again
SEED = int(os.environ.get("BRICKYARD_TEST_KILLS_SEED", "0")) or secrets.randbelow(10**9)
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(WHOLE_S + 1500)]

ROWS = 5  # of each batch: it is whole or not there at all
SHARED = -1  # a row that all change: each commit that does is in conflict with the others'
LAYERS = ("delta", "iceberg")
CONF = {"spark.sql.shuffle.partitions": "2", "spark.brickyard.layers": ",".join(LAYERS)}
# Statement `n` of writer `w`. Delta Lake skips a number of an application that it has; for Iceberg the client looks first.
WRITE = """
import time
def again(attempt):  # what another's commit came before
    for number in range(60):
        try:
            attempt()
            return number
        except Exception as error:
            text = type(error).__name__ + str(error)
            if not any(mark in text for mark in ("oncurrent", "CommitFailed", "conflicting", "stale")):
                raise
            time.sleep(0.1 * min(number, 10))
    raise RuntimeError("always another's commit")
def delta():
    for key, value in (("txnAppId", f"writer-{w}"), ("txnVersion", n)):
        spark.conf.set(f"spark.databricks.delta.write.{key}", str(value))
    step()
def iceberg():
    there = f"id = {first}" if kind == "append" else f"id = {SHARED} and seen{w} >= {n}"
    if not spark.table(table).where(there).count():
        step()
def step():
    if kind == "append":
        spark.range(first, first + ROWS, 1, 1).selectExpr("id", "0L hits", "0L seen0", "0L seen1").writeTo(table).append()
    elif kind == "merge":
        batch = f"select {SHARED} id union all select explode(sequence({first}, {first + ROWS - 1}))"
        spark.sql(f"merge into {table} t using ({batch}) s on t.id = s.id "
                  f"when matched then update set hits = t.hits + 1, seen{w} = {n} "
                  "when not matched then insert (id, hits, seen0, seen1) values (s.id, 0, 0, 0)")
    else:
        spark.sql(f"update {table} set hits = hits + 1, seen{w} = {n} where id = {SHARED}")
print(again(delta if table == "d" else iceberg))
"""
PROVIDERS = {"d": "delta", "i": "iceberg"}
MAKE = """
spark.sql("create table {table} (id bigint, hits bigint, seen0 bigint, seen1 bigint) using {provider}")
spark.sql("insert into {table} values (-1, 0, 0, 0)")
print(1)
"""
COUNT = """
import json
found = {}
for table in TABLES:
    rows = spark.sql(f"select id, count(*), max(hits) from {table} group by id").collect()
    found[table] = [[row[0], row[1], row[2]] for row in rows]
print(json.dumps(found))
"""


class Ledger:
    """What the writers were told. A step is (table, writer, number, kind)."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[str, int, int, str]] = []
        self.lost: list[tuple[str, int, int, str]] = []  # never answered, and not tried again
        self.repeated = self.conflicts = 0

    def __str__(self) -> str:
        acknowledged = Counter(f"{kind} of {table}" for table, _, _, kind in self.acknowledged)
        return json.dumps(
            {"acknowledged": acknowledged, "repeated": self.repeated, "conflicts": self.conflicts, "lost": self.lost}
        )

    def wait_for_more(self, writers: Iterable[Future[None]]) -> None:
        before = len(self.acknowledged)
        until(
            lambda: len(self.acknowledged) > before or any(each.done() for each in writers),
            "a writer has an answer", patience_s=600,
        )  # fmt: skip

    def steps(self, table: str, *kinds: str, lost: bool = False) -> set[tuple[int, int]]:
        return {(w, n) for name, w, n, kind in (self.lost if lost else self.acknowledged) if name == table and kind in kinds}


class Writer:
    """A client of one cluster. What it gets no answer for, it mostly sends again."""

    def __init__(self, live: Live, cluster: str, number: int, tables: tuple[str, ...], ledger: Ledger) -> None:
        self._live, self._cluster, self._number, self._tables, self._ledger = live, cluster, number, tables, ledger
        self._random, self._context = seeded(SEED + number + 1), ""

    def run(self, over: threading.Event) -> None:
        number = 0
        while not over.is_set():
            number += 1
            step = (self._random.choice(self._tables), self._number, number, self._random.choice(("append", "merge", "update")))
            while not (done := self._answered(step)) and self._random.random() < 0.8:
                self._ledger.repeated += 1
            (self._ledger.acknowledged if done else self._ledger.lost).append(step)

    def _answered(self, step: tuple[str, int, int, str]) -> bool:
        table, writer, number, kind = step
        values = {"table": table, "w": writer, "n": number, "kind": kind, "ROWS": ROWS, "SHARED": SHARED}
        code = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + f"first = {first_id(writer, number)}\n{WRITE}"
        try:
            self._context = self._context or self._live.context(self._cluster)
            answer = self._live.finish(self._cluster, self._context, self._live.begin(self._cluster, self._context, code))
        except DatabricksError:
            self._recover()
            return False
        if answer.status is CommandStatus.FINISHED and answer.results and answer.results.result_type is ResultType.TEXT:
            self._ledger.conflicts += int(str(answer.results.data))
            return True
        print(f"{step}: {answer.results and (answer.results.summary or answer.results.cause)}")
        self._recover()
        return False

    def _recover(self) -> None:
        """Until the cluster runs again and nothing of the last command does."""
        context, self._context = self._context, ""
        until(lambda: self._runs(context), lambda: f"never back: {self._live.get(self._cluster)}", patience_s=600)

    def _runs(self, context: str) -> bool:
        try:
            state = self._live.get(self._cluster).state
            if state is State.TERMINATED:
                self._live.w.clusters.start(self._cluster)
            elif state is State.RUNNING:
                if context:
                    self._live.w.command_execution.destroy(self._cluster, context)
                self._context = self._live.context(self._cluster)
                return True
        except DatabricksError:
            return bool(context) and self._runs("")  # the context is gone already
        return False


def first_id(writer: int, number: int) -> int:
    return writer * 10**7 + number * 10


def seeded(number: int) -> Random:
    return Random(number)  # noqa: S311 - the same kills again


class Killer:
    """Draws what is killed next."""

    def __init__(self, live: Live, clusters: list[str]) -> None:
        """`clusters`: the first has workers."""
        self._live, self._clusters, self._random = live, clusters, seeded(SEED)
        self.killed: Counter[str] = Counter()

    def pause_s(self) -> float:
        """How long after an answer the next one is killed: within a statement, or between two."""
        return self._random.uniform(0, 10)

    def strike(self) -> None:
        kinds = {"server": self._server, "jvm": self._jvm, "driver": self._driver, "agent": self._agent, "worker": self._worker}
        name, cluster = self._random.choice(list(kinds)), self._random.choice(self._clusters)
        with contextlib.suppress(psutil.Error, OSError, AssertionError, IndexError, DatabricksError):  # not there just now
            kinds[name](cluster)
            self.killed[name] += 1

    def _server(self, _: str) -> None:
        self._live.kill(self._live.server())
        self._live.start()

    def _jvm(self, cluster: str) -> None:
        self._live.kill(self._live.below(self._live.driver_agent(cluster), JVM))

    def _driver(self, cluster: str) -> None:
        self._node(self._live.driver_agent(cluster))

    def _agent(self, cluster: str) -> None:
        self._live.kill(self._live.driver_agent(cluster))

    def _worker(self, _: str) -> None:
        self._node(self._live.worker_agents(self._clusters[0])[0])

    def _node(self, agent: psutil.Process) -> None:
        self._live.kill(*agent.children(recursive=True), agent)


@pytest.fixture
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / "workspace")
    made.settings = msgspec.structs.replace(made.settings, port=free_port())  # clients find the next server there
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("runtime", [SPARK_4, SPARK_3])
def test_what_was_acknowledged_is_there_once(live: Live, runtime: str) -> None:
    print(f"BRICKYARD_TEST_KILLS_SEED={SEED}")
    with_layers(runtime, LAYERS)
    single: dict[str, Any] = {"is_single_node": True, "kind": Kind.CLASSIC_PREVIEW, "spark_conf": CONF}
    clusters = [live.create("one", runtime, num_workers=1, spark_conf=CONF), live.create("two", runtime, **single)]
    for each, workers in zip(clusters, (1, None), strict=True):
        live.wait(each, State.RUNNING, workers=workers)
    for table, provider in PROVIDERS.items():
        live.run(clusters[0], MAKE.format(table=table, provider=provider))
    ledger, over, killer = Ledger(), threading.Event(), Killer(live, clusters)
    with ThreadPoolExecutor(len(clusters)) as pool:
        writers = [pool.submit(Writer(live, each, w, tuple(PROVIDERS), ledger).run, over) for w, each in enumerate(clusters)]
        try:
            end = time.monotonic() + WHOLE_S
            while time.monotonic() < end and not any(each.done() for each in writers):
                ledger.wait_for_more(writers)
                over.wait(killer.pause_s())
                killer.strike()
        finally:
            over.set()
        for writer in writers:
            writer.result()
    for each in clusters:
        live.w.clusters.permanent_delete(each)
    reader = live.create("reader", runtime, **single)
    live.wait(reader, State.RUNNING)
    found = json.loads(live.run(reader, COUNT.replace("TABLES", repr(tuple(PROVIDERS)))))
    print(ledger, json.dumps(killer.killed))
    assert ledger.acknowledged and sum(killer.killed.values())
    for table in PROVIDERS:
        check(found[table], table, ledger)


def check(rows: list[list[int]], table: str, ledger: Ledger) -> None:
    """The table has what was acknowledged, each once, and beyond it at most what had no answer."""
    assert [row for row in rows if row[1] != 1] == [], "a row that is there twice"
    hits = {row[0]: row[2] for row in rows}
    sure, unsure = (ledger.steps(table, "append", "merge", lost=lost) for lost in (False, True))
    changes, more = (len(ledger.steps(table, "merge", "update", lost=lost)) for lost in (False, True))
    assert changes <= hits.pop(SHARED) <= changes + more
    assert set(hits.values()) <= {0}, "a merge that was done twice"
    batches = Counter((each // 10**7, each % 10**7 // 10) for each in hits)
    assert sure <= set(batches) <= sure | unsure, (sure - set(batches), set(batches) - sure - unsure)
    assert set(batches.values()) <= {ROWS}, "a part of a batch"
