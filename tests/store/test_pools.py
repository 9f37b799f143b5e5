"""Rows of pools and of their instances, on both databases."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError

from brickyard.domain.cluster import Instance
from brickyard.domain.pools import Pool, PoolSpec, Standing, standing
from brickyard.store import store as store_module
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import NOW, cluster, instance
from tests.plan.test_pool_plan import idle


def pool(name: str, number: int = 1, **fields: object) -> Pool:
    made = Pool(
        instance_pool_id=f"0101-000000-a-pool-{number}",
        creator_user_name="u",
        creator_user_id="1",
        created_ms=NOW + number,
        spec=PoolSpec(instance_pool_name=name, node_type_id="small"),
    )
    return msgspec.structs.replace(made, **fields)


def test_a_name_is_taken_once_and_free_after_a_delete(store: Store) -> None:
    store.write_sync(lambda tx: tx.pools.insert(pool("one")))
    with pytest.raises(IntegrityError):
        store.write_sync(lambda tx: tx.pools.insert(pool("one", 2)))
    assert store.read_sync(lambda tx: tx.pools.named("one")) == pool("one").instance_pool_id
    store.write_sync(lambda tx: tx.pools.update(pool("one", deleted_ms=NOW)))
    assert store.read_sync(lambda tx: tx.pools.named("one")) is None
    store.write_sync(lambda tx: tx.pools.insert(pool("one", 2)))
    assert store.read_sync(lambda tx: tx.pools.active()) == [pool("one", 2)]
    assert store.read_sync(lambda tx: tx.pools.get(pool("one").instance_pool_id)) == pool("one", deleted_ms=NOW)


def test_a_wake_never_postpones(store: Store) -> None:
    name = pool("one").instance_pool_id
    store.write_sync(lambda tx: tx.pools.insert(pool("one")))
    assert store.read_sync(lambda tx: tx.pools.due(0, 10)) == [name]
    store.write_sync(lambda tx: tx.pools.schedule(name, 5_000))
    store.write_sync(lambda tx: tx.pools.wake(name, 9_000))
    assert store.read_sync(lambda tx: tx.pools.due(4_999, 10)) == []
    store.write_sync(lambda tx: tx.pools.wake(name))
    assert store.read_sync(lambda tx: tx.pools.due(0, 10)) == [name]


def test_the_best_idle_instances_are_read_first(store: Store) -> None:
    kinds = [Standing.LAUNCHING, Standing.IDLE, Standing.WARM, Standing.PREPARING, Standing.WARM]
    rows = [idle(number, kind) for number, kind in enumerate(kinds)]
    used = msgspec.structs.replace(rows[2], instance_id="i-used", cluster_id="c")

    def fill(tx: Tx) -> None:
        for row in (*rows, used):
            tx.instances.insert(row)

    store.write_sync(fill)
    name = rows[0].pool_id
    best = store.read_sync(lambda tx: tx.instances.to_take(name, 3))
    assert [row.instance_id for row in best] == ["i-0002", "i-0004", "i-0001"]
    everything = store.read_sync(lambda tx: tx.instances.to_take(name, 99))
    assert [standing(row) for row in everything] == sorted(standing(row) for row in rows)
    counted = {Standing.USED: 1, Standing.WARM: 2, Standing.IDLE: 1, Standing.PREPARING: 1, Standing.LAUNCHING: 1}
    assert store.read_sync(lambda tx: tx.instances.standings(name)) == {name: counted}
    assert store.read_sync(lambda tx: tx.instances.standings()) == {name: counted}
    assert len(store.read_sync(lambda tx: tx.instances.idle_of_pool(name))) == 5
    assert store.read_sync(lambda tx: tx.instances.count_of_pool(name)) == 6


def test_whoever_has_an_instance_is_locked_with_it(store: Store) -> None:
    row = idle(1)
    of = cluster()

    def fill(tx: Tx) -> None:
        tx.clusters.insert(of)
        tx.instances.insert(row)

    store.write_sync(fill)
    assert store.write_sync(lambda tx: tx.lock_owner(row.instance_id)) == row

    def take(tx: Tx) -> Instance | None:
        tx.instances.update(msgspec.structs.replace(row, cluster_id=of.cluster_id))
        return tx.lock_owner(row.instance_id)

    taken = store.write_sync(take)
    assert taken is not None
    assert taken.owner_id == of.cluster_id
    assert store.write_sync(lambda tx: tx.lock_owner("nobody")) is None


def test_a_database_of_before_pools_is_brought_up_to_date(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    old = instance(cluster())
    engine = create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(Path(store_module.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(
            text("INSERT INTO instances (instance_id, cluster_id, state, doc) VALUES (:i, :c, :s, :d)"),
            {"i": old.instance_id, "c": old.cluster_id, "s": old.state.value, "d": msgspec.json.encode(old).decode()},
        )
    engine.dispose()
    store = Store.open(url)
    try:
        assert store.read_sync(lambda tx: tx.instances.get(old.instance_id)) == old
        assert store.read_sync(lambda tx: tx.instances.standings()) == {}
        store.write_sync(lambda tx: tx.pools.insert(pool("one")))
    finally:
        store.close()
