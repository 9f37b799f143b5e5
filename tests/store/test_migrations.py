"""A database of an earlier version is brought up to date with what is in it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, create_engine, event, insert, inspect, text

from brickyard import __version__
from brickyard.access.principals import active_principal
from brickyard.domain.access import Visible
from brickyard.domain.events import EventType
from brickyard.domain.identity import GroupRow, UserRow
from brickyard.domain.queries import EventFilter
from brickyard.store import schema
from brickyard.store.opening import StoreError
from brickyard.store.sqlite import engine as sqlite_engine
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import NOW

_CLUSTER = (
    "INSERT INTO clusters (cluster_id, cluster_name, state, source, creator, policy_id, idempotency_token, created_ms,"
    " terminated_ms, pinned_ms, deleted_ms, due_ms, version, doc) VALUES (:id, '', 'TERMINATED', 'API', '', '', '', 0,"
    " :at, :pinned, 0, NULL, 0, '{}')"
)
_EVENT = "INSERT INTO events (cluster_id, timestamp, type, doc) VALUES (:id, :at, 'PINNED', :doc)"


_INSERT_POOL = (
    "INSERT INTO pools (instance_pool_id, unique_name, created_ms, deleted_ms, due_ms, doc) VALUES (:id, :id, 0, 0, NULL, :doc)"
)
_INSERT_POLICY = "INSERT INTO policies (policy_id, unique_name, doc) VALUES (:id, :id, :doc)"
_POOL = {"creator_user_id": "1", "created_ms": 0, "spec": {"instance_pool_name": "p", "node_type_id": "small"}}

_USER = "INSERT INTO users (user_name, user_id, display_name, is_admin) VALUES (:name, :id, 'x', :admin)"
_TOKEN = "INSERT INTO tokens (token_id, digest, user_name, comment, created_ms, expiry_ms) VALUES (:id, :id, :name, '', 0, -1)"


def test_the_newest_schema_is_that_of_the_last_file() -> None:
    assert schema.newest() == ScriptDirectory(str(schema.MIGRATIONS)).get_current_head()


def test_a_new_database_is_as_if_all_migrations_had_run(bare_url: str) -> None:
    at_revision(bare_url, "0001", lambda _: None)
    Store.open(bare_url).close()
    migrated = contents(bare_url)
    empty(bare_url)
    Store.open(bare_url).close()
    assert contents(bare_url) == migrated


def contents(bare_url: str) -> dict[str, Any]:
    """Everything in a database but the order of columns: each table, as SQLAlchemy sees it, and its rows."""
    engine, found = create_engine(driven(bare_url)), dict[str, dict[str, Any]]()
    looked = inspect(engine)
    with engine.connect() as connection:
        for name in looked.get_table_names():
            rows = connection.execute(text(f'SELECT * FROM "{name}"')).mappings()  # noqa: S608 - our own tables
            found[name] = {
                "columns": sorted(str({**each, "type": str(each["type"])}) for each in looked.get_columns(name)),
                "key": looked.get_pk_constraint(name),
                "indexes": sorted(map(shown, looked.get_indexes(name)), key=lambda index: str(index["name"])),
                "unique": looked.get_unique_constraints(name),
                "rows": sorted(str({key: parsed(key, value) for key, value in sorted(row.items())}) for row in rows),
            }
    engine.dispose()
    return found


def shown(index: Any) -> dict[str, Any]:
    """An index, with its condition as text."""
    return {**index, "dialect_options": {name: str(value) for name, value in index.get("dialect_options", {}).items()}}


def parsed(column: Any, value: Any) -> Any:
    """Documents are compared as groups, the only ones in an empty workspace: fields may have their defaults, or be left out."""
    return msgspec.json.decode(value, type=GroupRow) if column == "doc" else value


def empty(bare_url: str) -> None:
    engine = create_engine(driven(bare_url))
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
        else:
            Path(str(engine.url.database)).unlink()
    engine.dispose()


def driven(bare_url: str) -> str:
    return bare_url.replace("postgresql://", "postgresql+psycopg://")


def test_administrators_become_members_of_admins(bare_url: str) -> None:
    at_revision(bare_url, "0011", _fill_users)
    store = Store.open(bare_url)
    try:

        def rights(tx: Tx, name: str) -> tuple[bool, list[str]]:
            principal = active_principal(tx, name)
            assert principal is not None
            return principal.is_admin, sorted(principal.entitlements)

        everything = ["allow-cluster-create", "allow-instance-pool-create", "databricks-sql-access", "workspace-access"]
        everyone = everything[2:]
        assert store.read_sync(lambda tx: rights(tx, "root")) == (
            True,
            ["allow-cluster-create", "allow-instance-pool-create", *everyone],
        )
        assert store.read_sync(lambda tx: rights(tx, "user@example.com")) == (False, everyone)
        both = store.read_sync(lambda tx: [tx.users.get(name) for name in ("Me@example.com", "me@example.com")])
        assert both == [UserRow(user_name="Me@example.com", user_id="3", display_name="x")] * 2
        assert store.read_sync(lambda tx: rights(tx, "me@example.com"))[0], "one of the two was an administrator"
        assert [row.token_id for row in store.read_sync(lambda tx: tx.tokens.of_user("Me@example.com"))] == ["3", "4"]
    finally:
        store.close()


def _fill_users(connection: Connection) -> None:
    for number, (name, admin) in enumerate(
        [("root", True), ("user@example.com", False), ("Me@example.com", False), ("me@example.com", True)], 1
    ):
        connection.execute(text(_USER), {"name": name, "id": str(number), "admin": admin})
        connection.execute(text(_TOKEN), {"name": name, "id": str(number)})


def at_revision(bare_url: str, revision: str, fill: Callable[[Connection], None]) -> None:
    """Makes a database as an earlier version left it."""
    engine = create_engine(driven(bare_url))
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(schema.MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        fill(connection)
    engine.dispose()


def test_events_are_numbered_and_terminated_clusters_get_their_time(bare_url: str) -> None:
    at_revision(bare_url, "0001", _fill_clusters)
    store = Store.open(bare_url)
    try:
        which = EventFilter(cluster_id="c", types=())
        assert store.read_sync(lambda tx: tx.events.count(which)) == 3
        rows = store.read_sync(lambda tx: tx.events.page(which, descending=False, limit=9))
        assert [(event.timestamp - NOW, event.type) for _, event in rows] == [(number, EventType.PINNED) for number in range(3)]
        assert set(store.read_sync(lambda tx: tx.clusters.due(NOW, 9))) == {"c", "pinned"}
    finally:
        store.close()


def _fill_clusters(connection: Connection) -> None:
    for name, pinned in (("c", 0), ("pinned", 1)):
        connection.execute(text(_CLUSTER), {"id": name, "at": NOW, "pinned": pinned})
    for number in (2, 0, 1):
        doc = f'{{"cluster_id":"c","timestamp":{NOW + number},"type":"PINNED"}}'
        connection.execute(text(_EVENT), {"id": "c", "at": NOW + number, "doc": doc})


def test_who_made_pools_and_policies_is_found_in_their_documents(bare_url: str) -> None:
    at_revision(bare_url, "0021", _fill_pools_and_policies)
    store = Store.open(bare_url)
    try:
        mine = Visible(owner="me@example.com")
        pools, policies = store.read_sync(lambda tx: (tx.pools.shown(mine), tx.policies.shown(mine)))
        assert [pool.instance_pool_id for pool in pools] == ["pool-me"]
        assert [row.policy_id for row in policies] == ["policy-me"]
    finally:
        store.close()


def _fill_pools_and_policies(connection: Connection) -> None:
    for name, owner in (("me", "me@example.com"), ("other", "other@example.com"), ("nobody", "")):
        if owner:
            pool = _POOL | {"instance_pool_id": f"pool-{name}", "creator_user_name": owner}
            connection.execute(text(_INSERT_POOL), {"id": f"pool-{name}", "doc": json.dumps(pool)})
        policy = {"policy_id": f"policy-{name}", "name": name} | ({"creator_user_name": owner} if owner else {})
        connection.execute(text(_INSERT_POLICY), {"id": f"policy-{name}", "doc": json.dumps(policy)})


def test_rows_of_every_revision_come_through_all_later_ones(bare_url: str) -> None:
    """As a workspace that took each version: what a table got when it was new is there at the end."""
    engine, added = create_engine(driven(bare_url)), dict[str, int]()
    for revision in sorted(each.revision for each in ScriptDirectory(str(schema.MIGRATIONS)).walk_revisions()):
        at_revision(bare_url, revision, lambda connection: added.update(_fill_new_tables(connection, added)))
    assert "clusters" in added and "saved_queries" in added
    Store.open(bare_url).close()
    with engine.connect() as connection:
        left = set(inspect(connection).get_table_names())
        rows = {name: connection.scalar(text(f'SELECT count(*) FROM "{name}"')) for name in added if name in left}  # noqa: S608
    engine.dispose()
    assert {name for name in added if name not in left} == {"secret_acls"}, "those that a migration has moved elsewhere"
    assert {name: count for name, count in rows.items() if count < added[name]} == {}


def _fill_new_tables(connection: Connection, added: dict[str, int]) -> dict[str, int]:
    """Puts two rows into each table that has none of ours; returns how many each has got."""
    found, known = MetaData(), set(added)
    found.reflect(connection)
    for table in found.tables.values():
        if table.name in known or table.name in ("alembic_version", "servers"):
            continue
        for number in (101, 102):
            row = {column.name: _value(column, number) for column in table.columns}
            connection.execute(insert(table), row)
        added[table.name] = 2
    return added


def _value(column: Any, number: int) -> Any:
    name = str(column.name)
    if name == "doc":
        return json.dumps({"creator_user_name": f"user{number}"})
    if name in ("owner", "user_name", "creator"):
        return f"user{number}"
    if column.type.python_type in (bool, bytes):
        return column.type.python_type(number % 2)
    return number if column.type.python_type is not str else f"{name[:4]}{number}"


@pytest.mark.parametrize("statement", [1, 80, "commit"])
def test_a_migration_that_is_killed_goes_on(bare_url: str, statement: int | str) -> None:
    at_revision(bare_url, "0001", _fill_clusters)
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _migrate_until(bare_url, statement)
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    engine = create_engine(driven(bare_url))
    with engine.connect() as connection:
        assert schema.revision(connection) == "0001", "all of it or nothing"
        assert connection.scalar(text("SELECT count(*) FROM events")) == 3
    engine.dispose()
    store = Store.open(bare_url)
    try:
        assert store.read_sync(lambda tx: tx.events.count(EventFilter(cluster_id="c", types=()))) == 3
    finally:
        store.close()


def _migrate_until(bare_url: str, statement: int | str) -> None:
    """Ends this process before that statement of the migration."""
    left = statement if isinstance(statement, int) else 0

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    engine = create_engine(driven(bare_url)) if bare_url.startswith("postgresql") else sqlite_engine(bare_url)
    if statement == "commit":
        event.listen(engine, "commit", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    else:
        event.listen(engine, "before_cursor_execute", count)
    schema.bring_up_to_date(engine)


def test_a_database_of_a_newer_version_is_refused_with_both_versions(bare_url: str) -> None:
    Store.open(bare_url).close()
    engine = create_engine(driven(bare_url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("UPDATE meta SET value = '99.1.2' WHERE key = 'schema_version'"))
    engine.dispose()
    before = contents_of_meta(bare_url)
    with pytest.raises(StoreError) as refused:
        Store.open(bare_url)
    assert all(each in str(refused.value) for each in ("99.1.2", "9999", __version__, schema.newest()))
    assert contents_of_meta(bare_url) == before


def contents_of_meta(bare_url: str) -> list[Any]:
    engine = create_engine(driven(bare_url))
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(text("SELECT key, value FROM meta ORDER BY key"))]
    engine.dispose()
    return rows
