"""Brings a database's schema up to date (`migrations/`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, Engine, delete, insert, inspect, select, text

from brickyard import __version__
from brickyard.domain.identity import ADMINS_ID, USERS_ID, GroupRow
from brickyard.store.changeset import Changes
from brickyard.store.identity import GroupRows
from brickyard.store.tables import grants, meta, metadata

MIGRATIONS = Path(__file__).parent / "migrations"
_USE = ("workspace-access", "databricks-sql-access")
_MAKE_COMPUTE = ("allow-cluster-create", "allow-instance-pool-create")
_FOR_USERS = (
    ("tokens", ""),
    ("cluster-policy", "ADD93B79DAEA139A"),
)  # the second is Personal Compute (plan/policies/families.py)
_REVISION = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


WRITTEN_BY = "schema_version"  # key in `meta`: the version of Brickyard that made the schema what it is


class StrangeSchema(Exception):
    """The schema is that of a newer version, or of another program. The message continues a sentence that begins with the
    database's name."""


def bring_up_to_date(engine: Engine, creates: Callable[[], None] = lambda: None) -> None:
    """Makes the database have the newest schema. Returns at once if it has it. Calls `creates` before it makes one in an empty
    database. Raises StrangeSchema, and what `creates` raises."""
    with engine.begin() as connection:
        migrate(connection, creates)


def migrate(connection: Connection, creates: Callable[[], None] = lambda: None) -> None:
    """Alembic's upgrade to the newest schema, in the caller's transaction. Two servers that start at once take turns."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(727100)"))
    current = revision(connection)
    if current == newest():
        return
    if current is None:
        creates()
        _create(connection)
    elif current > newest():
        raise StrangeSchema(_refusal(connection, current))
    else:
        _upgrade(connection)
    connection.execute(delete(meta).where(meta.c.key == WRITTEN_BY))
    connection.execute(insert(meta), {"key": WRITTEN_BY, "value": __version__})


def _refusal(connection: Connection, current: str) -> str:
    if not current.isdigit():
        return f"is that of another program (schema {current}): give Brickyard its own database."
    found = connection.scalar(select(meta.c.value).where(meta.c.key == WRITTEN_BY))
    version = f"Brickyard {found}" if found and found != __version__ else "a newer Brickyard"
    return (
        f"was written by {version} (schema {current}), and this is Brickyard {__version__} (schema {newest()}), which cannot "
        f"read it: use {version}, or restore the backup from before the upgrade."
    )


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - loads for a fifth of a second, and most starts migrate nothing
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _create(connection: Connection) -> None:
    """Makes the newest schema in an empty database. The same as all migrations one after the other, as a test shows; but these
    take as long as a third of a server's other work at its start."""
    metadata.create_all(connection, checkfirst=False)
    built_in = (
        GroupRow(group_id=ADMINS_ID, display_name="admins", entitlements=(*_MAKE_COMPUTE, *_USE)),
        GroupRow(group_id=USERS_ID, display_name="users", entitlements=_USE),
    )
    rows = GroupRows(connection, changed=Changes())
    for group in built_in:
        rows.put(group)
    usable = [{"kind": kind, "object_id": name, "principal_id": USERS_ID, "permission": "CAN_USE"} for kind, name in _FOR_USERS]
    connection.execute(insert(grants), usable)
    connection.execute(text(_REVISION))
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:newest)"), {"newest": newest()})


def revision(connection: Connection) -> str | None:
    """The schema's revision, as Alembic has noted it; None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


@functools.cache
def newest() -> str:
    """The newest schema's revision: the number of the last migration's file."""
    return max(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))
