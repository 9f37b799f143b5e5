"""Rows that want, or have, far more nodes than a workspace allows: passes work them off, a little at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue
from databricks.sdk.service.compute import AutoScale, ClusterSpec
from databricks.sdk.service.jobs import SparkPythonTask, SubmitTask

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Role
from brickyard.domain.pools import Pool, PoolSpec
from brickyard.nodes.loads import Loads
from brickyard.plan.policy import Policy
from brickyard.reconcile.clusters import pass_over_cluster
from brickyard.reconcile.instances import mark_gone
from brickyard.reconcile.launches import ProviderCalls
from brickyard.reconcile.pools import pass_over_pool
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import NOW, SIZES, cluster, instance, up
from tests.support.patience import until
from tests.support.server import Server

POOL = "0101-000000-test-pool-A"
POLICY = Policy(max_nodes=100, nodes_per_pass=100)
NODES = {"cluster_name": "c", "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge"}
MANY = 450  # more than a pass reads

Pass = Callable[[Tx, str], tuple[ProviderCalls, bool]]


def cluster_pass(tx: Tx, key: str) -> tuple[ProviderCalls, bool]:
    loads = Loads()
    left = pass_over_cluster(tx, key, now=NOW, sizes=SIZES, policy=POLICY, ids=Ids(), silent=frozenset(), loads=loads)
    return left.calls, left.unfinished


def pool_pass(tx: Tx, key: str) -> tuple[ProviderCalls, bool]:
    done = pass_over_pool(tx, key, now=NOW, sizes=SIZES, policy=POLICY, ids=Ids())
    return done.calls, done.unfinished


def until_done(store: Store, key: str, one: Pass) -> None:
    """Passes, and a provider that ends what it is told to end, until nothing is left to do."""
    for _ in range(100):
        calls, unfinished = store.write_sync(lambda tx: one(tx, key))
        assert len(calls.launch) + len(calls.terminate) <= POLICY.nodes_per_pass
        ending = [name for name, (_, state) in states(store).items() if state is InstanceState.TERMINATING]
        store.write_sync(lambda tx, ending=ending: mark_gone(tx, dict.fromkeys(ending, ""), {}))  # type: ignore[misc] # a default
        if not (unfinished or ending):
            return
    raise AssertionError("it never ends")


def states(store: Store) -> Mapping[str, tuple[str, InstanceState]]:
    return store.read_sync(lambda tx: tx.instances.states())


def test_a_cluster_with_far_too_many_nodes_ends_and_can_be_deleted(store: Store) -> None:
    of = up(cluster(num_workers=MANY))

    def fill(tx: Tx) -> None:
        tx.clusters.insert(of)
        for number in range(MANY):
            tx.instances.insert(instance(of, number=number, role=Role.WORKER if number else Role.DRIVER))

    store.write_sync(fill)
    until_done(store, of.cluster_id, cluster_pass)
    found = store.read_sync(lambda tx: tx.clusters.get(of.cluster_id))
    assert found is not None
    assert found.ended
    assert not states(store)
    store.write_sync(lambda tx: tx.clusters.update(msgspec.structs.replace(found, deleted_ms=NOW)))
    until_done(store, of.cluster_id, cluster_pass)
    assert store.read_sync(lambda tx: tx.clusters.get(of.cluster_id)) is None


def test_a_pool_with_far_too_many_instances_keeps_what_is_allowed_and_can_be_deleted(store: Store) -> None:
    spec = PoolSpec(instance_pool_name="p", node_type_id="small", min_idle_instances=100_000)
    pool = Pool(instance_pool_id=POOL, creator_user_name="u", creator_user_id="1", created_ms=NOW, spec=spec)

    def fill(tx: Tx) -> None:
        tx.pools.insert(pool)
        for number in range(MANY):
            tx.instances.insert(idle(number))

    store.write_sync(fill)
    until_done(store, POOL, pool_pass)
    assert len(states(store)) == POLICY.max_nodes
    store.write_sync(lambda tx: tx.pools.update(msgspec.structs.replace(pool, deleted_ms=NOW)))
    until_done(store, POOL, pool_pass)
    assert store.read_sync(lambda tx: tx.pools.get(POOL)) is None
    assert not states(store)


def idle(number: int) -> Instance:
    row = instance(cluster(), number=number, role=Role.WARM)
    return msgspec.structs.replace(row, cluster_id="", pool_id=POOL, generation=0, idle_ms=NOW)


def test_a_server_starts_on_rows_of_100_000_nodes_and_they_can_be_ended_and_deleted(tmp_path: Path) -> None:
    """As an earlier version may have left them."""
    data = tmp_path / "data"
    with Server.running(data, provider="simulated") as server:
        w = server.client()
        made = w.clusters.create(num_workers=1, **NODES).result()  # type: ignore[arg-type] # keyword arguments
        pool_id = w.instance_pools.create("p", NODES["node_type_id"], max_capacity=1).instance_pool_id
    assert made.cluster_id
    assert pool_id
    store = Store.open(f"sqlite:///{data / 'brickyard.db'}")
    try:
        store.write_sync(lambda tx: blow_up(tx, str(made.cluster_id), pool_id))
    finally:
        store.close()
    with Server.running(data, provider="simulated", max_nodes=3) as server:
        w = server.client()
        until(lambda: w.clusters.get(str(made.cluster_id)).termination_reason)
        reason = w.clusters.get(str(made.cluster_id)).termination_reason
        assert reason is not None
        assert reason.code is not None
        assert reason.code.value == "INVALID_ARGUMENT"
        until(lambda: idle_count(w, pool_id) == 3)
        refuses_more(w, str(made.cluster_id), pool_id)
        w.clusters.permanent_delete(str(made.cluster_id))
        w.instance_pools.delete(pool_id)
        until(lambda: not [*w.clusters.list()] and not [*w.instance_pools.list()])


def refuses_more(w: WorkspaceClient, cluster_id: str, pool_id: str) -> None:
    """Whatever asks for more nodes than the workspace allows, here 3, is refused, and changes nothing."""
    over = AutoScale(min_workers=1, max_workers=4)
    new = ClusterSpec(num_workers=4, spark_version=NODES["spark_version"], node_type_id=NODES["node_type_id"])
    task = SubmitTask(task_key="t", new_cluster=new, spark_python_task=SparkPythonTask(python_file="dbfs:/x.py"))
    running = str(w.clusters.create(num_workers=1, **NODES).result().cluster_id)  # type: ignore[arg-type] # keyword arguments
    before = (len([*w.clusters.list()]), len([*w.instance_pools.list()]))
    requests: list[tuple[str, Callable[[], object]]] = [
        ("num_workers", lambda: w.clusters.create(num_workers=4, **NODES)),  # type: ignore[arg-type] # keyword arguments
        ("autoscale.max_workers", lambda: w.clusters.create(autoscale=over, **NODES)),  # type: ignore[arg-type] # as above
        ("num_workers", lambda: w.clusters.edit(cluster_id, num_workers=4, **NODES)),  # type: ignore[arg-type] # as above
        ("num_workers", lambda: w.clusters.resize(running, num_workers=4)),
        ("autoscale.max_workers", lambda: w.clusters.resize(running, autoscale=over)),
        ("num_workers", lambda: w.jobs.submit(run_name="r", tasks=[task])),
        ("min_idle_instances", lambda: w.instance_pools.create("q", NODES["node_type_id"], min_idle_instances=4)),
        ("max_capacity", lambda: w.instance_pools.create("q", NODES["node_type_id"], max_capacity=4)),
        ("max_capacity", lambda: w.instance_pools.edit(pool_id, "p", NODES["node_type_id"], max_capacity=4)),
    ]
    for field, request in requests:
        with pytest.raises(InvalidParameterValue, match=field):
            request()
    assert (len([*w.clusters.list()]), len([*w.instance_pools.list()])) == before
    assert w.clusters.get(running).num_workers == 1
    w.clusters.permanent_delete(running)


def idle_count(w: WorkspaceClient, pool_id: str) -> int:
    stats = w.instance_pools.get(pool_id).stats
    assert stats is not None
    return stats.idle_count or 0


def blow_up(tx: Tx, cluster_id: str, pool_id: str) -> None:
    found, pool = tx.clusters.get(cluster_id), tx.pools.get(pool_id)
    assert found is not None
    assert pool is not None
    tx.clusters.update(wanting(found, 100_000))
    tx.clusters.wake(cluster_id)
    spec = msgspec.structs.replace(pool.spec, min_idle_instances=100_000, max_capacity=None)
    tx.pools.update(msgspec.structs.replace(pool, spec=spec))
    tx.pools.wake(pool_id)


def wanting(of: Cluster, workers: int) -> Cluster:
    spec = msgspec.structs.replace(of.spec, num_workers=workers)
    return msgspec.structs.replace(
        of, spec=spec, request=spec, target=Target.RUNNING, ended=False, incarnation=of.incarnation + 1, launch_started_ms=NOW
    )
