"""Moves a workspace's database from SQLite to PostgreSQL, while no server runs.

Both databases say how far that is, so that it may be cut off anywhere and be repeated, and so that at no moment both are the
workspace's. `MOVING` in both: the rows are being copied, and the old database is still the workspace's. A server that starts on
it removes the mark, and the next copy begins anew. `MOVED` in the old one: all is copied and compared, and no server starts on it
any more. `ID` in the new one: servers start on it.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from brickyard.config.settings import Settings
from brickyard.server import workspace as joined
from brickyard.server.datadir import Workspace
from brickyard.server.workspace import ID, MOVED, MOVING
from brickyard.storage.directory import Storage
from brickyard.storage.private import WorkspaceError
from brickyard.store import membership, schema, sqlite
from brickyard.store.databasecopy import exclusive_postgres
from brickyard.store.opening import StoreError, cannot_open, shown_url
from brickyard.store.store import PROBE
from brickyard.store.tablecopy import CopyError, TableCopy, Tell
from brickyard.store.tx import Tx

OWN = (ID, MOVED, MOVING, joined.CREATING, schema.WRITTEN_BY, PROBE)  # in `meta`: each database has its own


class Marks(NamedTuple):
    """What a database says of itself; "" where it says nothing."""

    workspace_id: str
    moving: str
    moved: str


def move_database(chosen: Settings, workspace: Workspace, tell: Tell, say: Callable[[str], None]) -> int:
    """Moves it to the database of the setting `database_url`; returns the number of rows. Raises WorkspaceError, StoreError and
    JoinRefused."""
    if make_url(chosen.database_url or "none://").get_backend_name() != "postgresql":
        raise WorkspaceError(
            "database_url must name the PostgreSQL database to move to: postgresql://user:password@host/database."
        )
    url = joined.sqlite_url(chosen)
    if sqlite.is_new(url):
        raise WorkspaceError(f"there is no SQLite database {shown_url(url)} to move. Correct --data-dir.")
    with contextlib.ExitStack() as opened:
        workspace.lock()
        opened.callback(workspace.unlock)
        storage = opened.enter_context(contextlib.closing(Storage(chosen.storage_dir)))
        opened.enter_context(contextlib.closing(membership.take(url, joined.about(chosen, "", chosen.providers))))
        storage.hold(alone=True)
        source = opened.enter_context(_source(url))
        target = opened.enter_context(exclusive_postgres(chosen.database_url))
        try:
            return _Move(source, target, storage, url=url, target_url=chosen.database_url).run(tell, say)
        except DBAPIError as error:
            raise cannot_open(chosen.database_url, error) from error
        except CopyError as error:
            raise StoreError(f"{error}. Both databases are as they were: servers start on {shown_url(url)}.") from error


@contextlib.contextmanager
def _source(url: str) -> Iterator[Engine]:
    engine = sqlite.engine(url)
    try:
        schema.bring_up_to_date(engine)
        yield engine
    except schema.StrangeSchema as error:
        raise StoreError(f"the database {shown_url(url)} {error}") from error
    finally:
        engine.dispose()


class _Move:
    """One run of it. The old database is locked, and so is the storage."""

    def __init__(self, source: Engine, target: Connection, storage: Storage, *, url: str, target_url: str) -> None:
        self._source = source
        self._target = target
        self._storage = storage
        self._url = url
        self._target_name = shown_url(target_url)

    def run(self, tell: Tell, say: Callable[[str], None]) -> int:
        with self._reading() as connection:
            old = _marks(connection)
        with self._target.begin():
            new = _marks(self._target)
        self._check(old, new)
        if new.workspace_id:
            say("The workspace's database has moved there before.")
            return 0
        nonce = old.moved.partition(" ")[0] or self._begin(old, new)
        with self._reading() as connection:
            copy = TableCopy(connection, self._target, own=OWN, tell=tell)
            say("Copying the rows ...")
            copy.copy()  # what was copied before is compared, and left alone
            say("Comparing all rows ...")
            with self._target.begin():
                rows = copy.compare()
                copy.number_on()
                self._target.execute(text("ANALYZE"))
        self._hand_over(old, nonce)
        return rows

    def _check(self, old: Marks, new: Marks) -> None:
        if not old.workspace_id:
            raise WorkspaceError(
                f"the database {shown_url(self._url)} is new, so there is nothing to move. Start the server with database_url."
            )
        joined.check_storage(self._url, old.workspace_id, self._storage)
        if new.workspace_id and not (old.moved and new.workspace_id == old.workspace_id):
            raise WorkspaceError(
                f"the database {self._target_name} is that of workspace {new.workspace_id} already. Move to an empty one."
            )
        if old.moved and not new.workspace_id and new.moving != f"{old.workspace_id} {old.moved.partition(' ')[0]}":
            raise WorkspaceError(
                f"the workspace's database has moved to {old.moved.partition(' ')[2]}, and database_url is {self._target_name}. "
                "Correct database_url."
            )
        if new.moving and new.moving.partition(" ")[0] != old.workspace_id:
            raise WorkspaceError(
                f"the database {self._target_name} has the unfinished copy of another workspace, {new.moving.partition(' ')[0]}. "
                "Finish that one, or move to an empty database."
            )

    def _begin(self, old: Marks, new: Marks) -> str:
        """Goes on with a copy of the same rows, or begins one; returns its nonce."""
        if old.moving and new.moving == f"{old.workspace_id} {old.moving}":
            return old.moving
        nonce = secrets.token_hex(8)
        with self._target.begin():
            TableCopy(self._target, self._target, own=OWN, tell=lambda _: None).clear()
            Tx(self._target, locking=False).set_meta(MOVING, f"{old.workspace_id} {nonce}")
        self._mark(MOVING, nonce)
        return nonce

    def _hand_over(self, old: Marks, nonce: str) -> None:
        """First the old database is nobody's, then the new one is the workspace's."""
        if not old.moved:
            self._mark(MOVED, f"{nonce} {self._target_name}")
        with self._target.begin():
            tx = Tx(self._target, locking=False)
            joined.settle(tx, old.workspace_id)
            tx.delete_meta(MOVING)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._source.connect().execution_options(reading=True) as connection, connection.begin():
            yield connection

    def _mark(self, key: str, value: str) -> None:
        with self._source.connect() as connection, connection.begin():
            Tx(connection, locking=False).set_meta(key, value)


def _marks(connection: Connection) -> Marks:
    tx = Tx(connection, locking=False)
    return Marks(*(tx.get_meta(key) or "" for key in (ID, MOVING, MOVED)))
