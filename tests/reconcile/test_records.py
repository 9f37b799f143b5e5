"""What the monitor knows of all instances is what a read of all rows says, though it reads only those of changed clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from brickyard.domain.instances import InstanceState
from brickyard.reconcile.records import InstanceRecords, Records
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster, nodes


def rows(tx: Tx, *names: str, provider: str = "", pool_id: str = "") -> None:
    for name in names:
        _rows(tx, name, provider=provider, pool_id=pool_id)


def _rows(tx: Tx, name: str, *, provider: str, pool_id: str) -> None:
    made = cluster(cluster_id=name, num_workers=1)
    tx.clusters.insert(made)
    for node in nodes(made, 1):
        row = msgspec.structs.replace(
            node, instance_id=f"{name}-{node.instance_id}", provider=provider, pool_id=pool_id, state=InstanceState.REQUESTED
        )
        tx.instances.insert(row)


def moved(tx: Tx, name: str, state: InstanceState) -> None:
    for node in tx.instances.of_cluster(name):
        tx.instances.update(msgspec.structs.replace(node, state=state))


def ended(tx: Tx, name: str) -> None:
    for node in tx.instances.of_cluster(name):
        tx.instances.delete(node)


async def test_what_is_known_is_what_is_on_record(store: Store) -> None:
    store.write_sync(lambda tx: rows(tx, "a", "b"))
    store.write_sync(lambda tx: rows(tx, "c", provider="other"))

    known = InstanceRecords(store=store, default="local")
    first = await known.now()
    assert set(first) == {"local", "other"} and len(first["local"]) == 4
    if store.alone:
        assert await known.now() is first, "nothing has changed"
    before = {name: dict(states) for name, states in first.items()}
    changes: tuple[Callable[[Tx], Any], ...] = (
        lambda tx: moved(tx, "a", InstanceState.LAUNCHED),
        lambda tx: rows(tx, "d"),
        lambda tx: ended(tx, "b"),
        lambda tx: ended(tx, "c"),
        lambda tx: rows(tx, "e", provider="local", pool_id="p"),
    )
    for change in changes:
        await store.write(change)
        assert await known.now() == await InstanceRecords(store=store, default="local").now()
    assert first == before, "what was known before stays as it was"
    after: Records = await known.before()
    assert {owner for owner, _ in after["local"].values()} == {"a", "d", "e"}


async def test_rows_of_other_clusters_are_not_read_again(store: Store) -> None:
    if not store.alone:
        return  # other servers' changes may not have been told: everything is read
    store.write_sync(lambda tx: rows(tx, "a", "b"))

    known = InstanceRecords(store=store, default="local")
    first = await known.now()
    await store.write(lambda tx: moved(tx, "a", InstanceState.LAUNCHED))
    second = await known.now()
    for instance_id, row in first["local"].items():
        assert (second["local"][instance_id] is row) == (row[0] == "b")
