"""Photon on real Spark: its answers are those of Spark's own engine, and scans of tables and files are native."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk.service.compute import EventType, RuntimeEngine, State

from brickyard.domain.runtimes import photon_key
from brickyard.runtime import catalogue
from brickyard.runtime.layers import missing
from brickyard.runtime.layerwork import require_layers
from brickyard.runtime.node.jvm.layers import PHOTON
from tests.spark.layers import with_layers
from tests.spark.live import NODE, Live
from tests.support.patience import until
from tests.support.runtimes import cache_dir, manifest_of

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]
LINES = ("18.0.x-scala2.13", "16.4.x-scala2.12")
PREPARE = "import json\nspark.conf.set('spark.sql.shuffle.partitions', '2')\n"


@pytest.fixture(scope="module", params=LINES, autouse=True)
def line(request: pytest.FixtureRequest) -> str:
    """Installs the runtime with the layer. Skips the tests where no repository has it."""
    key: str = request.param
    manifest_of(key)
    found = catalogue.find(key)
    assert found is not None
    problems = require_layers(found.environment, cache_dir=cache_dir(), names=PHOTON)
    if missing(found.environment, cache_dir(), PHOTON):
        pytest.skip(f"no Photon: {problems}")
    return key


@pytest.fixture(scope="module")
def cluster(live: Live, line: str) -> Iterator[str]:
    made = live.create("photon", line, num_workers=1, runtime_engine=RuntimeEngine.PHOTON)
    live.wait(made, State.RUNNING, workers=1)
    yield made
    live.w.clusters.delete(made)


def answers(live: Live, cluster: str, code: str) -> Any:
    """What the code prints as JSON."""
    return json.loads(live.run_kept(cluster, PREPARE + code))


MADE = """
spark.sql("create schema if not exists main.native")
rows = spark.range(20000).selectExpr(
    "id", "cast(id % 7 as int) k", "cast(id / 3 as decimal(12, 2)) d", "concat('n', id % 100) name",
    "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) at", "if(id % 11 = 0, null, id * 1.5D) f",
    "array(id, id + 1) both", "named_struct('a', id, 'b', 'x') pair")
rows.write.mode("overwrite").saveAsTable("main.native.t")
rows.write.mode("overwrite").partitionBy("k").parquet("dbfs:/native/odd name=1%")
rows.write.mode("overwrite").bucketBy(4, "id").sortBy("id").saveAsTable("main.native.bucketed")
"""
QUERIES = {
    "aggregate": "select k, sum(d), avg(f), count(distinct name), min(at), max(at) from main.native.t group by k order by 1",
    "join": "select a.k, count(*), sum(b.d) from native.t a join native.t b on a.id = b.id + 1 group by a.k order by a.k",
    "files": "select k, count(*), sum(f), max(name) from parquet.`dbfs:/native/odd name=1%` where k < 3 group by k order by 1",
    "union": "select k, sum(d) from (select * from native.t where k < 5 union all select * from native.t) group by k order by k",
    "buckets": "select /*+ merge(b) */ count(*), sum(a.d + b.f) from native.bucketed a join native.bucketed b on a.id = b.id",
    "nested": "select sum(pair.a), sum(both[1]), count(pair.b) from main.native.t where pair.a % 5 = 0",
    "window": "select id, rank() over (partition by k order by f desc nulls last) from main.native.t where id < 300 order by id",
}


def test_answers_are_spark_s_and_come_from_native_scans(live: Live, line: str, cluster: str) -> None:
    live.run_kept(cluster, MADE + "print(1)")
    code = """
queries, found = json.loads({queries!r}), {{}}
for name, text in queries.items():
    both = []
    for native in ("true", "false"):
        spark.conf.set("spark.comet.enabled", native)
        frame = spark.sql(text)
        both.append([[str(value) for value in row] for row in frame.collect()])
        if native == "true":
            plan = frame._jdf.queryExecution().executedPlan().toString()
    found[name] = [both[0] == both[1], len(both[0]), "CometNativeScan" in plan or "CometScan" in plan]
print(json.dumps(found))
"""
    found = answers(live, cluster, code.format(queries=json.dumps(QUERIES)))
    expected = dict.fromkeys(QUERIES, (True, True)) | ({} if line == LINES[0] else {"buckets": (True, False)})
    assert {name: (same, native) for name, (same, _, native) in found.items()} == expected
    assert all(rows for _, rows, _ in found.values())


CHANGED = """
found = []
for form, options in {"iceberg": "", "delta": "tblproperties ('delta.enableDeletionVectors' = 'true')"}.items():
    name = f"main.native.{form}s"
    spark.sql(f"create or replace table {name} (id bigint, k int, s string) using {form} partitioned by (k) {options}")
    spark.sql(f"insert into {name} select id, cast(id % 7 as int), concat('n', id % 100) from range(20000)")
    history = f"describe history {name}" if form == "delta" else f"select snapshot_id from {name}.snapshots"
    first = spark.sql(history).first()[0]
    spark.sql(f"delete from {name} where id % 5 = 0")
    spark.sql(f"update {name} set s = 'changed' where id % 11 = 0")
    merge = f"merge into {name} t using (select id, 9 k, 'm' s from range(19990, 20010)) u on t.id = u.id"
    spark.sql(merge + " when matched then update set s = u.s when not matched then insert *")
    texts = [
        f"select k, count(*), sum(id), min(s), max(s), count(distinct s) from {name} group by k order by k",
        f"select count(*), sum(id) from {name} version as of {first}",
        f"select i.k, count(*), sum(t.d) from {name} i join main.native.t t on i.id = t.id + 1 group by i.k order by 1",
    ]
    for native in ("true", "false"):
        spark.conf.set("spark.comet.enabled", native)
        found.append([[[str(value) for value in row] for row in spark.sql(text).collect()] for text in texts])
    spark.conf.set("spark.comet.enabled", "true")
print(json.dumps(found))
"""


def test_tables_that_change_have_the_same_answers(live: Live, line: str) -> None:
    """Iceberg's, and Delta's with deletion vectors."""
    with_layers(line, ("delta", "iceberg") if line == LINES[0] else ("delta",))  # Spark 3.5 has Iceberg in its runtime
    if line != LINES[0] and not manifest_of(line).get("has_iceberg"):
        pytest.skip("this runtime was installed without Iceberg")
    conf = {"spark.brickyard.layers": "delta,iceberg"}
    made = live.create("changed", line, num_workers=1, runtime_engine=RuntimeEngine.PHOTON, spark_conf=conf)
    live.wait(made, State.RUNNING, workers=1)
    iceberg, plain_iceberg, delta, plain_delta = answers(live, made, MADE + CHANGED)
    assert iceberg == plain_iceberg == delta == plain_delta
    # Of 20,000 a fifth went; the merge brought two of them back, and ten more.
    assert sum(int(row[1]) for row in delta[0]) == 16012
    assert delta[1] == [["20000", "199990000"]]
    live.w.clusters.delete(made)


def test_a_pool_that_preloads_photon_gives_warm_nodes_with_it(live: Live, line: str) -> None:
    w = live.w
    pool_id = w.instance_pools.create(
        "native", NODE, min_idle_instances=2, max_capacity=2, preloaded_spark_versions=[photon_key(line)]
    ).instance_pool_id
    assert pool_id is not None

    def warm() -> bool:
        stats = w.instance_pools.get(pool_id).stats
        return stats is not None and (stats.idle_count, stats.pending_idle_count) == (2, 0)

    until(warm, "the pool did not become warm")
    wait = w.clusters.create(
        line, cluster_name="warm", instance_pool_id=pool_id, num_workers=1, runtime_engine=RuntimeEngine.PHOTON
    )
    made = str(wait.cluster_id)
    live.wait(made, State.RUNNING, workers=1)
    event = next(each for each in w.clusters.events(made) if each.type is EventType.RUNNING)
    assert "2 of 2" in ((event.details.driver_state_message if event.details else None) or "")
    code = """
path = spark._jvm.java.lang.System.getProperty("java.class.path")
spark.range(1000).selectExpr("id", "id % 7 k").write.mode("overwrite").parquet("dbfs:/native/warm")
frame = spark.read.parquet("dbfs:/native/warm").groupBy("k").count()
rows = frame.collect()
plan = frame._jdf.queryExecution().executedPlan().toString()
print(json.dumps(["comet-spark" in path, "delta-spark" in path, len(rows), "CometNativeScan" in plan or "CometScan" in plan]))
"""
    found = catalogue.find(line)
    environment = found.environment if found is not None else ""
    has_delta = not missing(environment, cache_dir(), ("delta",))
    assert answers(live, made, code) == [True, has_delta, 7, True]
    w.clusters.permanent_delete(made)
    w.instance_pools.delete(pool_id)


LARGE = """
spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
text = "sha2(cast(id as string), 256)"
spark.range(0, 1000000, 1, 4).selectExpr("id", f"{text} s").write.mode("overwrite").parquet("dbfs:/native/large")
spark.read.parquet("dbfs:/native/large").createOrReplaceTempView("large")
"""
ONE = """
spark.conf.set("spark.comet.enabled", "{native}")
row = [str(value) for value in spark.sql({text!r}).first()]
store = spark._jsparkSession.sparkContext().statusStore()
usual = [getattr(store, f"stageList$default${{at}}")() for at in (2, 3, 4, 5)]
stages = store.stageList(None, *usual)
print(json.dumps([row, sum(stages.apply(at).diskBytesSpilled() for at in range(stages.size()))]))
"""
SPILLING = {
    "sort": "select count(*), max(n) from (select row_number() over (order by s) n from large)",
    "aggregate": "select count(*), sum(n), max(t) from (select s, count(*) n, max(concat(s, 'x')) t from large group by s)",
    "join": "select count(*), max(b.s) from large a join (select s from large where id % 3 < 2) b on a.s = b.s",
    "distinct": "select count(distinct s), count(distinct id) from large",
    "outer": "select count(*), count(b.id) from large a left join (select s, id from large where id % 2 = 0) b on a.s = b.s",
}


def test_what_does_not_fit_into_memory_spills(live: Live, line: str) -> None:
    """With 64 MiB for native code, and tables of a hundred or more."""
    conf = {"spark.memory.offHeap.size": "64m", "spark.executor.memory": "700m"}
    made = live.create("spills", line, num_workers=1, runtime_engine=RuntimeEngine.PHOTON, spark_conf=conf)
    live.wait(made, State.RUNNING, workers=1)
    live.run_kept(made, PREPARE + LARGE + "print(1)")
    for name, text in SPILLING.items():
        native, before = answers(live, made, ONE.format(native="true", text=text))
        plain, after = answers(live, made, ONE.format(native="false", text=text))
        assert native == plain, name
        assert after > before, f"{name} is too small: Spark's own operators had room for it"
    live.w.clusters.delete(made)


def test_the_library_is_the_runtime_s(live: Live, cluster: str) -> None:
    """Not one that a program could have put into a temporary directory."""
    for agent in [live.driver_agent(cluster), *live.worker_agents(cluster)]:
        maps = [
            each.path
            for process in [agent, *agent.children(recursive=True)]
            if process.name() == "java"
            for each in process.memory_maps()
            if "libcomet" in each.path
        ]
        assert maps and all("/native/" in path and "/tmp/" not in path for path in maps)  # noqa: S108 - what must not be there
