"""The servers of a workspace: their rows, and the advisory locks that show which of them are alive.

Every key contains the schema: each schema of a database counts as a database of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from brickyard.domain.node import ServerAddress
from brickyard.store.prepared import driver_execute

if TYPE_CHECKING:
    import psycopg

_SCHEMA = "coalesce(current_schema(), '')"
WORKSPACE = f"hashtextextended('brickyard server ' || {_SCHEMA}, 0)"  # exclusive: alone; shared: one of several
TURN = f"hashtextextended('brickyard turn ' || {_SCHEMA}, 0)"  # held by the server that joins, or decides whether nodes end
_NUMBERS = f"hashtext('brickyard numbers ' || {_SCHEMA})"  # combined with a server's number: held while the server lives
_HERE = "locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"

CHANNEL = "brickyard_servers"
CLAIM_S = 4.0  # a server that could not write its row for this long claims nothing: neither a lease nor being alone
SILENT_S = 5.0  # how long the others wait before they act on that
GONE_S = 15.0  # how long after its last word a server that has gone may still have a commit under way
KEPT_S = 3600.0  # how long a killed server's row is kept: it may rejoin after an outage


class JoinRefused(Exception):
    """This server may not serve the database at the moment. The message is one line for an administrator."""


def in_use(database: str, holder: str) -> JoinRefused:
    """The error for a database that another server uses exclusively."""
    who = holder.removeprefix("brickyard ") or "another process"
    return JoinRefused(
        f"another Brickyard server ({who}) is using the database {database} exclusively. Stop it first, or give this server its "
        "own database. Several servers need one PostgreSQL database, and the same version of Brickyard."
    )


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a server tells the others about itself."""

    address: ServerAddress = ServerAddress(url="")  # where agents reach it
    host: str = ""
    pid: int = 0
    version: str = ""
    provider: str = ""
    machine: str = ""  # if nodes are processes on their server's machine: which machine
    storage: str = ""  # where the workspace's files are
    sessions: str = ""  # the name of all its connections to the database
    agents: int = 0  # how many call it


_decode_about = msgspec.json.Decoder(About).decode


class Stopping(enum.IntEnum):
    """How far a server has got with stopping."""

    NO = 0
    YES = 1
    ENDING_NODES = 2  # it was the last one: nobody joins until it has gone


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server as the others see it. `seen_ms` is when it was last heard and `silent_ms` how long ago, by
    the database's clock; `session` is 0 if its connection has gone."""

    number: int
    about: About
    started_ms: int
    seen_ms: int = 0
    silent_ms: int = 0
    alone: bool = False
    stopping: Stopping = Stopping.NO
    session: int = 0

    @property
    def around(self) -> bool:
        """Whether it is alive, or died so recently that it may have something under way."""
        return bool(self.session) or self.silent_ms <= GONE_S * 1000

    @property
    def serves(self) -> bool:
        return bool(self.session) and self.stopping is Stopping.NO

    @property
    def hangs(self) -> bool:
        """Whether it has said nothing for so long that others act on it."""
        return self.silent_ms > SILENT_S * 1000

    @property
    def name(self) -> str:
        return f"process {self.about.pid} on {self.about.host}"


_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_SESSIONS = f"""
SELECT objid::bigint AS number, pid FROM pg_locks
WHERE {_HERE} AND objsubid = 2 AND classid::bigint = ({_NUMBERS}::bigint & 4294967295)
"""  # noqa: S608 - constants
_LOOK = f"""
SELECT number, doc, started_ms, seen_ms, {_NOW} - seen_ms, alone, stopping, coalesce(pid, 0)
FROM servers LEFT JOIN ({_SESSIONS}) sessions USING (number) ORDER BY number
"""  # noqa: S608 - constants
_INSERT = f"""
INSERT INTO servers (doc, started_ms, seen_ms, alone, stopping) VALUES (%s, {_NOW}, {_NOW}, false, 0) RETURNING number
"""  # noqa: S608 - constants
_RETURN = f"UPDATE servers SET doc = %s, seen_ms = {_NOW}, alone = false WHERE number = %s"  # noqa: S608 - constants
_SEEN = f"UPDATE servers SET doc = %s, seen_ms = {_NOW}, alone = %s WHERE number = %s"  # noqa: S608 - constants
_FORGET = f"DELETE FROM servers WHERE number = ANY(%s) AND seen_ms < {_NOW} - {int(KEPT_S * 1000)}"  # noqa: S608 - constants
_HOLDER = f"""
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE {_HERE} AND objsubid = 1 AND mode = 'ExclusiveLock' AND (classid::bigint << 32 | objid::bigint) = {WORKSPACE}
"""  # noqa: S608 - constants
_LEASES = f"""
SELECT name FROM unnest(%s::text[]) AS name
WHERE pg_try_advisory_lock(hashtextextended('brickyard lease ' || {_SCHEMA} || ' ' || name, 0))
"""  # noqa: S608 - constants
_LET_GO = f"""
SELECT pg_advisory_unlock(hashtextextended('brickyard lease ' || {_SCHEMA} || ' ' || name, 0)) FROM unnest(%s::text[]) AS name
"""  # noqa: S608 - constants
_END_ALL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = %s OR datname = current_database() AND application_name = %s
AND application_name NOT IN ('', current_setting('application_name'))
"""

Session: TypeAlias = "psycopg.Connection[Any]"


# For a membership's connection, which commits each statement separately.


def look(session: Session) -> list[Server]:
    """All recorded servers."""
    return [_server(row) for row in session.execute(_LOOK).fetchall()]


def on_record(session: Session) -> bool:
    """Whether this database records servers at all: not before its first start with this version or a later one."""
    return _true(session, "SELECT to_regclass('servers') IS NOT NULL")


def enter(session: Session, about: About, number: int) -> int:
    """Records this server, under the same number if it still has a row; returns the number."""
    if not number or session.execute(_RETURN, (_doc(about), number)).rowcount == 0:
        number = int(_one(session, _INSERT, _doc(about)))
    return number


def be_heard(session: Session, about: About, number: int, *, alone: bool) -> bool:
    """Records that this server is alive. Returns False if its row no longer exists."""
    return session.execute(_SEEN, (_doc(about), alone, number)).rowcount == 1


def leave(session: Session, number: int) -> None:
    session.execute("DELETE FROM servers WHERE number = %s", (number,))


def forget(session: Session, numbers: Iterable[int]) -> None:
    """Removes the rows of servers that were killed long ago."""
    session.execute(_FORGET, (list(numbers),))


def announce(session: Session) -> None:
    """Makes the other servers check."""
    session.execute("SELECT pg_notify(%s, '')", (CHANNEL,))


def end_session(session: Session, pid: int) -> None:
    session.execute("SELECT pg_terminate_backend(%s)", (pid,))


def end_sessions(session: Session, other: Server) -> bool:
    """Ends all sessions of another server. Returns False once it has none."""
    return session.execute(_END_ALL, (other.session, other.about.sessions)).rowcount > 0


def hold_number(session: Session, number: int) -> bool:
    return _true(session, f"SELECT pg_try_advisory_lock({_NUMBERS}, %s::int)", number)


def take_turn(session: Session) -> bool:
    return _true(session, f"SELECT pg_try_advisory_lock({TURN})")


def end_turn(session: Session) -> None:
    session.execute(f"SELECT pg_advisory_unlock({TURN})")


def share(session: Session) -> bool:
    """Tries to become one of several."""
    return _true(session, f"SELECT pg_try_advisory_lock_shared({WORKSPACE})")


def stop_sharing(session: Session) -> None:
    session.execute(f"SELECT pg_advisory_unlock_shared({WORKSPACE})")


def be_alone(session: Session, patience_ms: int) -> bool:
    """Tries to become the only one. Unlike a try-lock it holds back later commits; else a busy server never succeeds."""
    import psycopg  # noqa: PLC0415 - only where there is PostgreSQL

    session.execute(f"SET lock_timeout = {int(patience_ms)}")
    try:
        session.execute(f"SELECT pg_advisory_lock({WORKSPACE})")
    except psycopg.errors.LockNotAvailable:
        return False
    finally:
        session.execute("SET lock_timeout = 0")
    return True


def stop_being_alone(session: Session) -> None:
    session.execute(f"SELECT pg_advisory_unlock({WORKSPACE})")


def holder(session: Session) -> str:
    """The name of the session that is alone; "" if none is."""
    row = session.execute(_HOLDER).fetchone()
    return "" if row is None else str(row[0])


def take_leases(session: Session, names: Iterable[str]) -> frozenset[str]:
    """Takes those of the leases that are free, and returns them."""
    return frozenset(str(row[0]) for row in session.execute(_LEASES, (list(names),)).fetchall())


def let_go(session: Session, names: Iterable[str]) -> None:
    session.execute(_LET_GO, (list(names),))


class Excluded(Exception):
    """Another server is alone: nothing of this one may be committed. Only the writer handles this."""


def commit_shared(connection: Connection, before: str) -> None:
    """Commits for a server that is not alone, if no other one is: executes the statements `before` and commits, in one exchange
    with the database. Raises Excluded, and then the transaction is to be rolled back."""
    try:
        driver_execute(connection, f"{_OR_FAIL}; {before}COMMIT", prepare=False)  # several statements cannot be prepared
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _DIVISION_BY_ZERO:
            raise Excluded from error
        raise


_OR_FAIL = f"SELECT 1 / pg_try_advisory_xact_lock_shared({WORKSPACE})::int"  # an error keeps what follows from being executed
_DIVISION_BY_ZERO = "22012"


class Leave(enum.Enum):
    """Which servers are left when one stops."""

    LAST = "no server is left"
    OTHERS = "others serve"
    UNCLEAR = "others may come back in a moment"


class ServerRows:
    """Server rows within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._postgres = connection.dialect.name == "postgresql"

    def stop(self, number: int, *, waited: bool) -> Leave:
        """Records that the server is stopping. LAST: its nodes end with it, and nobody joins until it has gone. UNCLEAR: ask
        again; once the caller has `waited` for longer than SILENT_S, servers that have not been heard from by then do not count.

        A joining server takes the same turn: either it is seen here, or it sees what is decided here.
        """
        if not self._postgres:
            return Leave.LAST
        self._connection.execute(text(f"SELECT pg_advisory_xact_lock({TURN})"))
        others = [found for row in self._connection.execute(text(_LOOK)) if (found := _server(row)).number != number]
        answer = _left([other for other in others if not other.stopping], waited=waited)
        stopping = Stopping.ENDING_NODES if answer is Leave.LAST else Stopping.YES
        self._connection.execute(
            text("UPDATE servers SET stopping = :stopping WHERE number = :number"), {"stopping": stopping.value, "number": number}
        )
        return answer


def _doc(about: About) -> str:
    return msgspec.json.encode(about).decode()


def _left(others: Iterable[Server], *, waited: bool) -> Leave:
    """What the servers that are not stopping mean for one that is."""
    if any(other.session and other.silent_ms < SILENT_S * 1000 for other in others):
        return Leave.OTHERS
    if not waited and any(other.session or other.silent_ms < SILENT_S * 1000 for other in others):
        return Leave.UNCLEAR
    return Leave.LAST


def _server(row: Any) -> Server:
    number, doc, started_ms, seen_ms, silent_ms, alone, stopping, session = row
    return Server(
        number=number,
        about=_decode_about(doc),
        started_ms=started_ms,
        seen_ms=seen_ms,
        silent_ms=silent_ms,
        alone=alone,
        stopping=Stopping(stopping),
        session=session,
    )


def _true(session: Session, statement: str, *values: Any) -> bool:
    return bool(_one(session, statement, *values))


def _one(session: Session, statement: str, *values: Any) -> Any:
    row = session.execute(statement, values or None).fetchone()
    return None if row is None else row[0]
