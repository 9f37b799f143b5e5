"""A database of an earlier version is brought up to date with what is in it."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from brickyard.domain.events import EventType
from brickyard.domain.queries import EventFilter
from brickyard.store import store as module
from brickyard.store.store import Store
from brickyard.testing.builders import NOW

_CLUSTER = (
    "INSERT INTO clusters (cluster_id, cluster_name, state, source, creator, policy_id, idempotency_token, created_ms,"
    " terminated_ms, pinned_ms, deleted_ms, due_ms, version, doc) VALUES (:id, '', 'TERMINATED', 'API', '', '', '', 0,"
    " :at, :pinned, 0, NULL, 0, '{}')"
)
_EVENT = "INSERT INTO events (cluster_id, timestamp, type, doc) VALUES (:id, :at, 'PINNED', :doc)"


def test_events_are_numbered_and_terminated_clusters_get_their_time(store_url: str) -> None:
    engine = create_engine(store_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(module._MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for name, pinned in (("c", 0), ("pinned", 1)):
            connection.execute(text(_CLUSTER), {"id": name, "at": NOW, "pinned": pinned})
        for number in (2, 0, 1):
            doc = f'{{"cluster_id":"c","timestamp":{NOW + number},"type":"PINNED"}}'
            connection.execute(text(_EVENT), {"id": "c", "at": NOW + number, "doc": doc})
    engine.dispose()
    store = Store.open(store_url)
    try:
        which = EventFilter(cluster_id="c", types=())
        assert store.read_sync(lambda tx: tx.events.count(which)) == 3
        rows = store.read_sync(lambda tx: tx.events.page(which, descending=False, limit=9))
        assert [(event.timestamp - NOW, event.type) for _, event in rows] == [(number, EventType.PINNED) for number in range(3)]
        assert set(store.read_sync(lambda tx: tx.clusters.due(NOW, 9))) == {"c", "pinned"}
    finally:
        store.close()
