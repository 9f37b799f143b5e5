"""One of the servers of a PostgreSQL database.

Each server has a dedicated connection with advisory locks, which end with the connection in any case: one for its number, the
workspace's lock, and its leases. What this server may claim exclusively depends on that connection alone, and only for as long as
the connection works: its row records when it last did. A lost connection ends all claims at once; then the server joins again.

A server that is alone may have lost its connection without knowing it yet. A joining server therefore waits until that server's
row no longer says that it is alone, or is older than SILENT_S. A server believes itself alone for at most CLAIM_S after it last
wrote its row.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence

import msgspec
import psycopg
import structlog

from brickyard import __version__
from brickyard.domain.clock import elapsed_ns
from brickyard.store import postgres, schema, servers
from brickyard.store.opening import StoreError, cannot_open, shown_url
from brickyard.store.servers import CLAIM_S, KEPT_S, SILENT_S, About, JoinRefused, Server, Session, Stopping, in_use

log = structlog.get_logger(__name__)

TICK_S = 0.5
JOINING_S = 0.05  # between two attempts to join
AGAIN_S = (0.1, 3.0)  # shortest and longest pause before reconnecting
TURN_S = 60.0  # how long to wait for the server that joins before this one: it may have to bring the schema up to date
JOIN_S = 30.0  # how long to wait until the others let this server in
STEADY_S = SILENT_S + 1  # only a server that was heard for this long without a pause judges others: not after an outage
ALONE_MS = 200  # how long one attempt to be alone may delay this server's commits
CLOSE_S = 2.0
ENCODING = "UTF8"


def _elapsed() -> float:
    """Seconds, including those while the machine slept."""
    return elapsed_ns() / 1e9


class PostgresMembership:
    """See `membership.Membership`. The connection belongs to the caller's thread until `join`, and then to a dedicated thread."""

    def __init__(self, url: str, about: About) -> None:
        self._url = url
        self._about = msgspec.structs.replace(about, sessions=postgres.session_name())
        self._shown = shown_url(url)
        self.number = 0
        self._listeners: list[Callable[[], None]] = []
        self._agents: Callable[[], int] = lambda: 0
        self._wanted: tuple[str, ...] = ()
        self._resigned = False
        self._closed = False
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)
        self._joined = threading.Event()
        self._signs: dict[int, tuple[int, float]] = {}  # when each server was last heard, and when that was seen here first
        # The thread writes the following; any thread reads them.
        self._trouble = "the server is starting"
        self._zero_ns = time.time_ns() - elapsed_ns()  # epoch ns by the database's clock, when `elapsed_ns` was 0
        self._alone = False
        self._leases = frozenset[str]()
        self._heard_s = float("-inf")  # start of the last successful write of its row
        self._others: tuple[Server, ...] = ()
        self._me: Server | None = None
        self._sharing = False  # only for the thread, like the next one
        self._steady_s = float("inf")
        self._session: Session | None = None
        try:
            self._session = self._connected()
            self._may_join(self._session)
        except BaseException:
            self._end_session()
            raise

    @property
    def alone(self) -> bool:
        return self._alone and self._heard

    @property
    def trouble(self) -> str:
        return self._trouble or ("" if self._heard else f"its own connection to the database has not answered for {CLAIM_S:g} s")

    @property
    def _heard(self) -> bool:
        return _elapsed() - self._heard_s < CLAIM_S

    def now_ns(self) -> int:
        return self._zero_ns + elapsed_ns()

    def lease(self, name: str) -> Callable[[], bool]:
        if name not in self._wanted:
            self._wanted = (*self._wanted, name)
            self._ring()
        return lambda: name in self._leases and self._heard

    def resign(self) -> None:
        self._resigned = True
        self._ring()

    def servers(self) -> tuple[Server, ...]:
        alive = [each for each in (*self._others, self._me) if each is not None and each.session]
        return tuple(sorted(alive, key=lambda each: each.number))

    def count_agents(self, agents: Callable[[], int]) -> None:
        self._agents = agents

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def join(self) -> None:
        session = self._session
        assert session is not None  # noqa: S101 - made by the constructor
        try:
            self._enter(session)
        except psycopg.Error as error:
            raise self._unusable(error) from error
        self._thread.start()
        if not self._joined.wait(JOIN_S):
            raise JoinRefused(
                f"the servers of the database {self._shown} did not let this one join within {JOIN_S:g} s: "
                f"{self._trouble}. Look at their logs, or stop them."
            )

    def close(self) -> None:
        self._closed = True
        self._ring()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)  # does not wait for a database that hangs
        if not self._thread.is_alive():
            self._end_session()
            self._bell.close()
            self._button.close()

    # -- joining -----------------------------------------------------------------------------------------------------

    def _connected(self) -> Session:
        try:
            session = postgres.connect(self._url)
            self._check_encoding(session)
            # The database notices within half a minute that a server's machine has gone. What this connection writes is worthless
            # after a crash of the database, so commits need not wait for the disk.
            session.execute(
                "SELECT set_config('synchronous_commit', 'off', false), set_config('tcp_keepalives_idle', '10', false), "
                "set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false)"
            )
            session.execute(f"LISTEN {servers.CHANNEL}")
        except psycopg.Error as error:
            raise self._unusable(error) from error
        return session

    def _check_encoding(self, session: Session) -> None:
        if (encoding := session.info.parameter_status("server_encoding")) == ENCODING:
            return
        session.close()
        raise StoreError(
            f"the database {self._shown} has the encoding {encoding}, which does not hold every text as it is. Create one with "
            f"{ENCODING} (CREATE DATABASE name ENCODING '{ENCODING}' TEMPLATE template0), and use its URL"
        )

    def _may_join(self, session: Session) -> None:
        """Waits for this server's turn to join, and checks that it may. Raises JoinRefused or StoreError."""
        try:
            self._wait_for(lambda: servers.take_turn(session), TURN_S, "another server is taking too long to join")
            if not servers.on_record(session):
                # A server of an earlier version uses the database exclusively, and keeps no record.
                self._wait_for(lambda: not servers.holder(session), SILENT_S, servers.holder(session))
                return
            for other in servers.look(session):
                if (
                    other.session
                    and other.number != self.number
                    and (why := refusal(self._about, other) or _unlike(session, other))
                ):
                    raise JoinRefused(why)
        except psycopg.Error as error:
            raise self._unusable(error) from error

    def _wait_for(self, ready: Callable[[], bool], limit_s: float, holder: str) -> None:
        deadline = time.monotonic() + limit_s
        while not ready():
            if time.monotonic() > deadline or self._closed:
                raise in_use(self._shown, holder)
            time.sleep(JOINING_S)

    def _enter(self, session: Session) -> None:
        """Records this server, and ends its turn."""
        self.number = servers.enter(session, self._about, self.number)
        deadline = time.monotonic() + SILENT_S
        while not servers.hold_number(session, self.number):  # PostgreSQL may still hold it for a connection lost a moment ago
            for other in servers.look(session):
                if other.number == self.number and other.session:
                    servers.end_session(session, other.session)
            if time.monotonic() > deadline:
                raise psycopg.OperationalError("this server's last session does not end")
            time.sleep(JOINING_S)
        servers.end_turn(session)
        servers.announce(session)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause_s, longest_s = AGAIN_S
        while not self._closed:
            try:
                if self._session is None:
                    self._session = self._connected()
                    self._may_join(self._session)
                    self._enter(self._session)
                pause_s = AGAIN_S[0]
                self._follow(self._session)
            except Exception as error:
                if not isinstance(error, psycopg.Error | OSError | StoreError | JoinRefused):
                    log.exception("membership_failed")
                self._lose(error)
                self._wait(None, pause_s)
                pause_s = min(2 * pause_s, longest_s)

    def _follow(self, session: Session) -> None:
        while not self._closed:
            self._tick(session)
            self._wait(session, TICK_S if not self._trouble else JOINING_S)
        servers.leave(session, self.number)
        servers.announce(session)

    def _lose(self, error: Exception) -> None:
        why = f"it is currently not one of the workspace's servers: {_reason(error)}"
        if why != self._trouble and not self._closed:
            log.info("not_a_member", why=_reason(error))  # if the whole database is away, the store logs that
        self._alone, self._leases, self._sharing, self._trouble = False, frozenset(), False, why
        self._steady_s = float("inf")
        self._end_session()
        self._tell()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(psycopg.Error, OSError):
                session.close()

    def _tick(self, session: Session) -> None:
        before = (self._alone, self._leases, self._trouble, self._numbers())
        if not self._sharing and not self._alone:
            self._sharing = servers.share(session)
        began = _elapsed()
        if not servers.be_heard(session, self._told(), self.number, alone=self._alone):
            raise psycopg.OperationalError("another server took this one for dead")
        if began - self._heard_s > CLAIM_S or self._steady_s > began:
            self._steady_s = began
        self._heard_s = began
        found = servers.look(session)
        self._follow_clock(found)
        self._me = next((each for each in found if each.number == self.number), None)
        self._others = tuple(each for each in found if each.number != self.number)
        self._end_what_hangs(session)
        if self._trouble:
            self._become_one_of_several(session)
        if not self._trouble:
            self._choose(session)
            self._take_leases(session)
        if gone := [each.number for each in self._others if not each.session and each.silent_ms > KEPT_S * 1000]:
            servers.forget(session, gone)
        if before != (self._alone, self._leases, self._trouble, self._numbers()):
            self._tell()
        if not self._trouble:
            self._joined.set()

    def _follow_clock(self, found: Sequence[Server]) -> None:
        """Takes the time from the database, and sees who has been heard, which a jump of that time does not change."""
        if found:
            self._zero_ns = (found[0].seen_ms + found[0].silent_ms) * 1_000_000 - elapsed_ns()
        now, signs = _elapsed(), self._signs
        same = {each.number for each in found if each.number in signs and signs[each.number][0] == each.seen_ms}
        self._signs = {each.number: signs[each.number] if each.number in same else (each.seen_ms, now) for each in found}

    def _told(self) -> About:
        """What this server tells the others now."""
        return msgspec.structs.replace(self._about, agents=self._agents())

    def _numbers(self) -> tuple[tuple[int, Stopping], ...]:
        return tuple((each.number, each.stopping) for each in self._others if each.session)

    def _become_one_of_several(self, session: Session) -> None:
        """Joins once no other server caches data and none is ending the nodes.

        A server that was alone and is silent now may be frozen just before a commit that it announces to nobody. Its sessions are
        ended first, so that this commit is never made.
        """
        keeping = [each for each in self._others if each.alone and each.silent_ms < SILENT_S * 1000]
        ending = [each for each in self._others if each.session and each.stopping is Stopping.ENDING_NODES]
        ended = [self._end_sessions(session, each) for each in self._others if each.alone and each not in keeping]
        if not self._sharing or keeping or any(ended):
            self._trouble = "another server has not let it join yet"
        elif ending:
            self._trouble = f"{ending[0].name} is stopping and ends the nodes"
        else:
            self._trouble = ""
            log.info("joined", number=self.number, others=len(self._numbers()))

    def _choose(self, session: Session) -> None:
        """Becomes alone, or one of several."""
        if self._alone and any(each.session for each in self._others):
            self._alone = False  # first: from now on nothing that was cached is used
            self._tell()
            servers.be_heard(session, self._told(), self.number, alone=False)
            self._sharing = servers.share(session)
            servers.stop_being_alone(session)
        elif not self._alone and not any(each.around for each in self._others) and servers.be_alone(session, ALONE_MS):
            if self._sharing:
                servers.stop_sharing(session)
                self._sharing = False
            # First: a server that joins after this session is lost must know.
            servers.be_heard(session, self._told(), self.number, alone=True)
            self._alone = True

    def _take_leases(self, session: Session) -> None:
        if self._resigned:
            held, self._leases = self._leases, frozenset()
            if held:
                servers.let_go(session, held)
        elif missing := [name for name in self._wanted if name not in self._leases]:
            self._leases |= servers.take_leases(session, missing)

    def _end_what_hangs(self, session: Session) -> None:
        """Ends the sessions of silent servers, so that they hold no lease and no row, and commit nothing that they have begun.
        Only a server that was heard all the time itself can tell this from an outage of the database."""
        now = _elapsed()
        if now - self._steady_s < STEADY_S:
            return
        for other in self._others:
            if other.session and other.hangs and now - self._signs[other.number][1] > SILENT_S:
                log.warning("server_hangs", number=other.number, server=other.name, silent_s=other.silent_ms // 1000)
                self._end_sessions(session, other)

    def _end_sessions(self, session: Session, other: Server) -> bool:
        """Ends all sessions of another server. Returns False once it has none, or if our role may not end them."""
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            return servers.end_sessions(session, other)
        return False

    def _wait(self, session: Session | None, seconds: float) -> None:
        """Waits until something is announced, this server wants something, or the time is over."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            if session is not None:
                selector.register(session.fileno(), selectors.EVENT_READ)
            selector.select(seconds)
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)
        if session is not None:
            list(session.notifies(timeout=0))  # raises if the connection is lost

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            self._button.send(b"x")

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def _unusable(self, error: Exception) -> StoreError:
        return cannot_open(self._url, error)


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _unlike(session: Session, other: Server) -> str:
    """Why this server may not join one that works with another schema; "" if there is none. Two builds may
    have one version."""
    row = session.execute("SELECT version_num FROM alembic_version").fetchone()
    found = row[0] if row else ""
    if found == schema.newest():
        return ""
    return (
        f"Brickyard {other.about.version} serves this workspace ({other.name}) with schema {found}, and this is Brickyard "
        f"{__version__} with schema {schema.newest()}. Stop all its servers before you start another version."
    )


def refusal(new: About, other: Server) -> str:
    """Why a server may not join another one; "" if it may. Pure."""
    there = other.about
    if new.version != there.version:
        return (
            f"Brickyard {there.version} serves this workspace ({other.name}), and this is Brickyard {new.version}. Stop all its "
            f"servers before you start another version, or start this one with {there.version}."
        )
    if new.storage != there.storage:
        return (
            f"another server of this workspace ({other.name}) has its files in {there.storage}, but this one uses {new.storage}. "
            "Set storage_url to the same place for all of them, or give this one its own database."
        )
    if new.provider != there.provider:
        return (
            f"another server of this workspace ({other.name}) uses provider {there.provider}, but this one uses {new.provider}. "
            "Set provider to the same one for all of them."
        )
    if new.machine != there.machine:
        return (
            f"the nodes of provider {new.provider} are processes of one machine, and another server of this workspace "
            f"({other.name}) is on another one. Start this server there, or use a provider for several machines."
        )
    return ""
