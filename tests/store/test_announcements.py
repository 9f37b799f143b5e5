"""Every commit says what it changed, by kind: to the server that made it, and to the others on the same database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import psycopg
import pytest

from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.cluster import Instance, Workbench, WorkspaceTask
from brickyard.domain.identity import ADMINS_ID, NEVER, GroupRow, TokenRow, UserRow
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Phase
from brickyard.domain.policies import PolicyRow
from brickyard.domain.snapshots import ClusterConfiguration, SnapshotRow
from brickyard.store.changeset import Changes, Lost
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster, instance
from tests.plan.test_pool_plan import idle
from tests.store.test_pools import pool
from tests.store.test_runs import run
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres import Postgres

POOL = pool("one")
POOL_ID = POOL.instance_pool_id
NODE = instance(cluster())
POLICY = PolicyRow(policy_id="g", name="governs", creator_user_name="u")
OF_POLICY = Place(ObjectKind.CLUSTER_POLICY, "g")
USER = UserRow(user_name="a@example.com", user_id="8")
GROUP = GroupRow(group_id="7", display_name="g")
TOKEN = TokenRow(token_id="t", digest="d", user_name="a@example.com", comment="", created_ms=0, expiry_ms=NEVER)
IDLE = msgspec.structs.replace(idle(1), pool_id=POOL_ID)


def before(tx: Tx) -> None:
    tx.clusters.insert(cluster())
    tx.pools.insert(POOL)
    tx.policies.put(POLICY)
    tx.runs.insert(run(1))
    tx.instances.insert(NODE)
    tx.instances.insert(IDLE)
    tx.tokens.insert(TOKEN)


def changed(row: Instance, **fields: object) -> Callable[[Tx], None]:
    return lambda tx: tx.instances.update(msgspec.structs.replace(row, **fields))


def reassigned(row: Instance, **fields: object) -> Callable[[Tx], None]:
    assert row.assignment is not None
    newer = msgspec.structs.replace(row.assignment, version=row.assignment.version + 1)
    return changed(row, assignment=newer, **fields)


def run_updated(tx: Tx) -> None:
    tx.runs.update(run(1))


SNAPSHOT = SnapshotRow(
    snapshot_id="s",
    cluster_id=cluster().cluster_id,
    owner="o",
    user_name="u",
    name="n",
    created_ms=1,
    configuration=ClusterConfiguration(
        gpu_type="", gpu_count=0, cpu_cores=1, memory_gb=1, node_type_id="small", num_workers=0, runtime=""
    ),
)


def with_task(tx: Tx) -> None:
    task = WorkspaceTask(number=1, incarnation=1, restore="s", ready_ms=1)
    tx.clusters.update(msgspec.structs.replace(cluster(), workbench=Workbench(task=task)))


C, P, R = {cluster().cluster_id}, {POOL_ID}, {1}
CASES: dict[str, tuple[Callable[[Tx], object], Changes]] = {
    "nothing": (lambda tx: tx.set_meta("a", "b"), Changes()),
    "a wake": (lambda tx: tx.clusters.wake(cluster().cluster_id), Changes()),
    "a cluster": (lambda tx: tx.clusters.touch(cluster().cluster_id), Changes(clusters=C)),
    "a task of a cluster": (with_task, Changes(clusters=C, snapshots=True)),
    "a snapshot": (lambda tx: tx.snapshots.insert(SNAPSHOT), Changes(snapshots=True)),
    "a pool": (lambda tx: tx.pools.update(POOL), Changes(pools=P)),
    "a pool removed": (lambda tx: tx.pools.delete(POOL_ID), Changes(pools=P, lost={Lost("instance-pool", POOL_ID, owner="u")})),
    "a policy": (lambda tx: tx.policies.put(POLICY), Changes(policies={"g"})),
    "a grant on a policy": (lambda tx: tx.grants.put(OF_POLICY, [Grant("7", Permission.CAN_USE)]), Changes(policies={"g"})),
    "a policy removed": (
        lambda tx: tx.policies.delete("g"),
        Changes(policies={"g"}, lost={Lost("cluster-policy", "g", owner="u")}),
    ),
    "a run": (run_updated, Changes(runs=R)),
    "an identity": (lambda tx: tx.users.put(USER), Changes(identity=True)),
    "a group": (lambda tx: tx.groups.put(GROUP), Changes(identity=True)),
    "a member": (lambda tx: tx.groups.add(ADMINS_ID, ["9"]), Changes(identity=True)),
    "no member any more": (lambda tx: tx.groups.remove(ADMINS_ID, ["8"]), Changes(identity=True)),
    "a token revoked": (lambda tx: tx.tokens.delete("t"), Changes(identity=True)),
    "no such token": (lambda tx: tx.tokens.delete("x"), Changes()),
    "a run removed": (lambda tx: tx.runs.delete(1), Changes(runs=R, lost={Lost("run", "1", owner="u")})),
    "a report": (changed(NODE, status=msgspec.structs.replace(NODE.status, phase=Phase.PREPARING)), Changes(clusters=C)),
    "an assignment": (reassigned(NODE), Changes(clusters=C, instances={NODE.instance_id})),
    "the same assignment": (changed(NODE, assignment=msgspec.structs.replace(NODE.assignment)), Changes(clusters=C)),  # type: ignore[type-var] # it has one
    "an instance sent away": (
        changed(NODE, state=InstanceState.TERMINATING),
        Changes(clusters=C, ended={NODE.instance_id}),
    ),
    "an idle instance": (changed(IDLE, pid=7), Changes(pools=P)),
    "an idle instance removed": (lambda tx: tx.instances.delete(IDLE), Changes(pools=P)),
    "an instance taken": (
        reassigned(IDLE, cluster_id=cluster().cluster_id),
        Changes(clusters=C, pools=P, instances={IDLE.instance_id}),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_commit_names_what_it_changed(store: Store, case: str) -> None:
    work, expected = CASES[case]
    store.write_sync(before)
    heard: list[Changes] = []
    store.on_commit(heard.append)
    store.write_sync(work)
    assert heard == ([expected] if expected else [])


async def test_units_that_share_a_commit_are_told_of_together_and_failed_ones_are_not(store: Store) -> None:
    heard = Changes()
    store.on_commit(heard.add)

    def fail(tx: Tx) -> None:
        tx.pools.insert(pool("two", 2))
        raise RuntimeError("no")

    works: list[Callable[[Tx], None]] = [
        lambda tx: tx.clusters.insert(cluster()),
        lambda tx: tx.runs.insert(run(1)),
        fail,
        lambda tx: tx.pools.insert(POOL),
    ]
    await asyncio.gather(*(store.write(work) for work in works), return_exceptions=True)
    assert heard == Changes(clusters=C, runs=R, pools=P)


def listeners(url: str) -> int:
    """How many servers listen."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'"
        ).fetchone()
    return int(found[0]) if found else 0


async def test_other_servers_are_told_of_every_kind(postgres: Postgres) -> None:
    url = postgres.new_database()
    one, other = Store.open(url), Store.open(url)
    heard = Changes()
    told = asyncio.Event()
    everything = Changes(clusters=C, pools=P, policies={"g"}, runs=R, instances={NODE.instance_id})

    def listen(changes: Changes) -> None:
        heard.add(changes)
        if heard == everything:
            told.set()

    other.on_commit(listen)
    try:
        until(lambda: listeners(url) == 2)
        async with asyncio.timeout(PATIENCE_S):
            await other.read(lambda tx: None)  # from now on it speaks on this event loop
            await one.write(before)
            await one.write(reassigned(NODE))
            await told.wait()
    finally:
        one.close()
        other.close()
