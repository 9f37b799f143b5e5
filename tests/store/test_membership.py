"""One server has an SQLite database; several may share a PostgreSQL one, and each knows what it may take for its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import msgspec
import psycopg
import pytest

from brickyard.domain.errors import DatabaseAway
from brickyard.domain.node import ServerAddress
from brickyard.store import membership, postgresmembers, schema, servers
from brickyard.store.membership import Membership
from brickyard.store.opening import StoreError
from brickyard.store.postgresmembers import PostgresMembership, refusal
from brickyard.store.servers import About, JoinRefused, Leave, Server
from brickyard.store.store import Store
from brickyard.testing.builders import cluster
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, Stopwatch, until
from tests.support.postgres import Postgres

HOUR_MS = 3_600_000

ABOUT = About(host="here", pid=1, version="1", provider="simulated", storage="/data")

# A server's membership in a process of its own, which can be killed and stopped. It says what it is whenever it is asked.
HOLDER = """
import sys
import structlog
from brickyard.store import membership
from brickyard.store.servers import About
from brickyard.store.store import Store
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
about = About(host="here", pid=2, version="1", provider="simulated", storage="/data")
member = membership.take(sys.argv[1], about)
Store.open(sys.argv[1]).close()
member.join()
held = member.lease("monitor")
print("joined", flush=True)
for _ in sys.stdin:
    print(member.alone, held(), len(member.servers()), flush=True)
"""


class Members:
    """Memberships of one database, closed in the end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.opened: list[Membership] = []

    def join(self, about: About = ABOUT) -> Membership:
        member = membership.take(self.url, about)
        self.opened.append(member)
        Store.open(self.url).close()
        member.join()
        return member

    def end_session(self, member: Membership) -> None:
        """What a restart of the database does to it, or a broken network."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = {each.number: each.session for each in servers.look(connection)}
            servers.end_session(connection, found[member.number])

    def age(self, seconds: float) -> None:
        """Let all rows of servers that have gone be older."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for each in servers.look(connection):
                if not each.session:
                    connection.execute("UPDATE servers SET seen_ms = seen_ms - %s", (int(seconds * 1000),))

    def close(self) -> None:
        for each in self.opened:
            each.close()


@pytest.fixture
def members(postgres: Postgres) -> Iterator[Members]:
    opened = Members(postgres.new_database())
    yield opened
    opened.close()


@contextmanager
def holder(url: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "joined\n"
            yield process
        finally:
            process.kill()
            process.send_signal(signal.SIGCONT)


def said(process: subprocess.Popen[str]) -> tuple[bool, bool, int]:
    """Whether it is alone, whether it has the lease, and of how many servers it knows."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    alone, held, number = process.stdout.readline().split()
    return alone == "True", held == "True", int(number)


def took(change: Callable[[], object], limit_s: float) -> None:
    watch = Stopwatch()
    until(change)
    assert watch.took_s < limit_s, "this is what a server that hangs would take"


# -- one server on SQLite -----------------------------------------------------------------------------------------------


def test_a_second_server_of_sqlite_is_told_who_has_the_database(tmp_path: Path, golden: Golden) -> None:
    url = f"sqlite:///{tmp_path}/brickyard.db"
    about = msgspec.structs.replace(ABOUT, pid=os.getpid())
    first = membership.take(url, about)
    first.join()
    with golden.refused(JoinRefused, f"(process {os.getpid()} on here)"):
        membership.take(url, about)
    assert first.alone
    assert first.lease("monitor")()
    assert [each.about for each in first.servers()] == [about]
    first.close()
    membership.take(url, about).close()


@pytest.mark.parametrize("how", ["symlink", "hard link", "renamed", "bare link to a link"])
def test_no_other_path_leads_a_second_server_to_the_same_file(tmp_path: Path, how: str, golden: Golden) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    file, other = tmp_path / "a" / "brickyard.db", tmp_path / "b" / "brickyard.db"
    with holder(f"sqlite:///{file}") as process:
        if how == "symlink":
            other.symlink_to(file)
        elif how == "hard link":
            other.hardlink_to(file)
        elif how == "renamed":
            file.rename(other)
        else:
            (tmp_path / "b" / "link").symlink_to(file)
            other.symlink_to("link")
        with pytest.raises(JoinRefused):
            membership.take(f"sqlite:///{other}", ABOUT)
        assert said(process) == (True, True, 1)
        process.kill()
        process.wait()
    if how == "hard link":  # what the killed server wrote is in the log beside the other name
        with golden.refused(StoreError):
            membership.take(f"sqlite:///{other}", ABOUT)
    else:
        membership.take(f"sqlite:///{other}", ABOUT).close()


def test_a_refused_server_leaves_the_locks_of_sqlite_alone(tmp_path: Path) -> None:
    """In one process: to close any descriptor of the file would drop them, and another process could write."""
    file, other = tmp_path / "brickyard.db", tmp_path / "other.db"
    first = membership.take(f"sqlite:///{file}", ABOUT)
    store = Store.open(f"sqlite:///{file}")
    other.symlink_to(file)
    writes = f"import sqlite3; sqlite3.connect({str(file)!r}, timeout=0).execute('BEGIN IMMEDIATE')"

    def work(_: object) -> int:
        for path in (file, other):
            with pytest.raises(JoinRefused):
                membership.take(f"sqlite:///{path}", ABOUT)
        return subprocess.run([sys.executable, "-c", writes], stderr=subprocess.DEVNULL, check=False).returncode

    assert store.write_sync(work) != 0, "the write lock is still held"
    store.close()
    first.close()


def test_a_killed_server_of_sqlite_is_followed_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/brickyard.db"
    with holder(url) as process:
        assert said(process) == (True, True, 1)
        process.kill()
        process.wait()
        membership.take(url, ABOUT).close()


def test_a_place_where_no_lock_can_be_is_told(tmp_path: Path, golden: Golden) -> None:
    with golden.refused(StoreError):
        membership.take(f"sqlite:///{tmp_path}/none/brickyard.db", ABOUT)


# -- several servers on PostgreSQL --------------------------------------------------------------------------------------


def test_servers_join_and_the_last_one_is_alone_again(members: Members) -> None:
    first = members.join()
    assert first.alone
    second = members.join()
    assert not first.alone, "nothing that it kept is used any more when the other one has joined"
    assert not second.alone
    until(lambda: len(first.servers()) == len(second.servers()) == 2)
    first.close()
    took(lambda: second.alone, servers.SILENT_S)
    assert [each.number for each in second.servers()] == [second.number]


def test_a_server_with_another_schema_does_not_join(members: Members) -> None:
    first = members.join()
    with psycopg.connect(members.url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0030'")
    with pytest.raises(JoinRefused) as refused:
        members.join()
    assert all(each in str(refused.value) for each in ("0030", schema.newest(), str(ABOUT.version)))
    with psycopg.connect(members.url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0030",), "nothing was migrated"
    first.close()


def test_joining_waits_for_no_limit(members: Members) -> None:
    members.join()
    watch = Stopwatch()
    members.join()
    assert watch.took_s < servers.SILENT_S, "the first one lets it in at once"


def test_servers_that_start_at_once_on_an_empty_database_join_one_another(members: Members) -> None:
    together = Barrier(3)

    def join(_: int) -> Membership:
        together.wait(PATIENCE_S)
        return members.join()

    with ThreadPoolExecutor(3) as threads:
        joined = list(threads.map(join, range(3)))
    until(lambda: all(len(each.servers()) == 3 for each in joined))
    assert not any(each.alone for each in joined)
    assert len({each.number for each in joined}) == 3


def test_schemas_of_one_database_are_databases_of_their_own(members: Members) -> None:
    with psycopg.connect(members.url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA other")
    first = members.join()
    apart = Members(f"{members.url}?options=-csearch_path%3Dother")
    other = apart.join(msgspec.structs.replace(ABOUT, version="2"))
    assert first.alone
    assert other.alone
    until(first.lease("monitor"))
    apart.close()


def test_a_lease_has_one_holder_and_moves_within_a_second(members: Members) -> None:
    with holder(members.url) as process:
        until(lambda: said(process)[1])
        second = members.join()
        held = second.lease("monitor")
        assert not held()
        other = second.lease("retention")
        until(other)
        assert not held()
        process.kill()
        took(held, servers.SILENT_S)


def test_a_server_that_resigns_leaves_its_leases_to_the_others(members: Members) -> None:
    first, second = members.join(), members.join()
    mine = first.lease("monitor")
    until(mine)
    theirs = second.lease("monitor")
    first.resign()
    took(theirs, servers.SILENT_S)
    assert not mine()


def test_a_killed_server_is_missed_within_a_second_and_its_commits_are_waited_for(members: Members) -> None:
    with holder(members.url) as process:
        second = members.join()
        until(lambda: len(second.servers()) == 2)
        process.kill()
        took(lambda: len(second.servers()) == 1, servers.SILENT_S)
        assert not second.alone, "a commit of the other one may still be under way"
        members.age(servers.GONE_S)
        until(lambda: second.alone)


def test_who_joins_does_not_trust_a_lost_connection(members: Members) -> None:
    """The first one has lost its connection, and with it its lock, and does not know: it is stopped."""
    with holder(members.url) as process:
        assert said(process)[0]
        process.send_signal(signal.SIGSTOP)
        with psycopg.connect(members.url, autocommit=True) as connection:
            (row,) = servers.look(connection)
            servers.end_session(connection, row.session)
        stopped_s = time.monotonic()
        second = members.join()
        waited_s = time.monotonic() - stopped_s
        assert waited_s > servers.CLAIM_S, "until what the first one says of itself is too old for itself too"
        assert not second.alone
        process.send_signal(signal.SIGCONT)
        assert not said(process)[0], "it knows before it uses what it has kept"
        until(lambda: said(process)[2] == 2)


def test_a_server_that_lost_its_connection_keeps_nothing_and_joins_again(members: Members) -> None:
    first, second = members.join(), members.join()
    held = first.lease("monitor")
    until(held)
    changes: list[str] = []
    first.on_change(lambda: changes.append(first.trouble))
    members.end_session(first)
    until(lambda: changes)
    assert changes[0] != ""
    until(lambda: first.trouble == "" and len(second.servers()) == 2)
    one_of_them = second.lease("monitor")
    until(lambda: held() != one_of_them())


def test_a_server_that_was_alone_is_so_again_after_its_connection_was_lost(members: Members) -> None:
    first = members.join()
    changes: list[bool] = []
    first.on_change(lambda: changes.append(first.alone))
    members.end_session(first)
    until(lambda: first.alone and changes)
    assert changes[0] is False, "others could have come and gone meanwhile"


def test_the_connection_of_a_server_that_hangs_is_ended(members: Members) -> None:
    with holder(members.url) as process:
        second = members.join()
        held = second.lease("monitor")
        until(lambda: said(process) == (False, True, 2))
        process.send_signal(signal.SIGSTOP)
        until(lambda: held() and len(second.servers()) == 1)
        process.send_signal(signal.SIGCONT)
        assert not said(process)[1], "it knows before it does anything that needs the lease"
        until(lambda: said(process) == (False, False, 2))


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_servers_go_by_the_databases_clock_and_a_jump_of_it_ends_none(
    members: Members, monkeypatch: pytest.MonkeyPatch, jump_ms: int
) -> None:
    ticks = [0, 0]

    def ticked(number: int) -> int:
        ticks[number] += 1
        return 0

    def ahead_ms() -> list[float]:
        return [(each.now_ns() - time.time_ns()) / 1e6 for each in both]

    def sessions() -> dict[int, int]:
        with psycopg.connect(members.url, autocommit=True) as connection:
            return {each.number: each.session for each in servers.look(connection)}

    both = [members.join(), members.join()]
    assert all(abs(each) < HOUR_MS / 60 for each in ahead_ms())
    before = sessions()
    for number, each in enumerate(both):
        each.count_agents(lambda number=number: ticked(number))  # type: ignore[misc]
    monkeypatch.setattr(postgresmembers, "STEADY_S", 0.0)
    monkeypatch.setattr(servers, "_LOOK", servers._LOOK.replace("seen_ms, (", f"seen_ms, {jump_ms} + (", 1))
    until(lambda: all(abs(each - jump_ms) < HOUR_MS / 60 for each in ahead_ms()))
    now = list(ticks)
    until(lambda: min(after - since for after, since in zip(ticks, now, strict=True)) > 2)
    assert sessions() == before and all(each.session for each in both[0].servers())


def test_a_database_that_was_away_is_joined_again_by_all(postgres: Postgres) -> None:
    """A restart is short here; that it took longer is told by the age of the rows, which are older than any limit."""
    members = Members(postgres.new_database())
    first, second = members.join(), members.join()
    held = first.lease("monitor"), second.lease("monitor")
    until(lambda: any(each() for each in held))
    numbers = {first.number, second.number}
    postgres.stop()
    until(lambda: first.trouble and second.trouble)
    assert not any(each() for each in held)
    postgres.launch()
    members.age(60)
    until(lambda: len(first.servers()) == len(second.servers()) == 2 and not first.trouble and not second.trouble)
    until(lambda: [each() for each in held].count(True) == 1)
    assert {first.number, second.number} == numbers
    assert not first.alone
    assert not second.alone
    members.close()


def test_a_store_writes_nothing_while_another_server_is_alone(members: Members, golden: Golden) -> None:
    """It lost its membership, and does not know that the other one keeps what it reads by now."""
    first = members.join()
    behind = Store.open(members.url)
    member = Store.open(members.url, sharing=first)
    try:
        with pytest.raises(DatabaseAway) as refused:
            behind.write_sync(lambda tx: tx.clusters.insert(cluster()))
        golden(refused.value.reason)
        member.write_sync(lambda tx: tx.clusters.insert(cluster()))
        members.join()
        behind.write_sync(lambda tx: tx.clusters.touch(cluster().cluster_id))
    finally:
        behind.close()
        member.close()


def test_being_alone_is_had_however_busy_the_server_is(members: Members) -> None:
    first = members.join()
    second = members.join()
    busy = Store.open(members.url, sharing=first)
    busy.write_sync(lambda tx: tx.clusters.insert(cluster()))
    stop = False

    def write() -> None:
        while not stop:
            busy.write_sync(lambda tx: tx.clusters.touch(cluster().cluster_id))

    with ThreadPoolExecutor(2) as threads:
        writing = [threads.submit(write) for _ in range(2)]
        second.close()
        until(lambda: first.alone)
        stop = True
        for each in writing:
            each.result()
    busy.close()


# -- who may join -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"version": "2"},
        {"storage": "/other"},
        {"provider": "local"},
        {"machine": "there"},
    ],
)
def test_a_server_that_does_not_fit_is_refused(members: Members, change: dict[str, str], golden: Golden) -> None:
    first = members.join()
    with golden.refused(JoinRefused):
        members.join(msgspec.structs.replace(ABOUT, **change))
    first.close()
    assert members.join(msgspec.structs.replace(ABOUT, **change)).alone, "it fits when the other one has gone"


def test_a_server_like_the_others_is_not_refused() -> None:
    other = msgspec.structs.replace(ABOUT, pid=7, address=ServerAddress(url="http://x"))
    assert refusal(ABOUT, Server(number=1, about=other, started_ms=0)) == ""


def test_a_server_of_a_version_without_a_record_is_noticed(
    members: Members, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(postgresmembers, "SILENT_S", 0.2)
    with psycopg.connect(members.url, autocommit=True, application_name="brickyard process 7 on there") as earlier:
        earlier.execute(f"SELECT pg_advisory_lock({servers.WORKSPACE})")
        with golden.refused(JoinRefused):
            members.join()
        assert not servers.on_record(earlier), "its schema is left as it is"


# -- who ends the nodes -------------------------------------------------------------------------------------------------


def test_the_last_server_that_stops_ends_the_nodes(members: Members) -> None:
    first, second = members.join(), members.join()
    store = Store.open(members.url)
    assert store.write_sync(lambda tx: tx.servers.stop(first.number, waited=False)) is Leave.OTHERS
    assert store.write_sync(lambda tx: tx.servers.stop(second.number, waited=False)) is Leave.LAST
    with ThreadPoolExecutor(1) as threads:
        third = threads.submit(members.join)
        time.sleep(0.5)
        assert not third.done(), "it would have nodes of its own ended"
        second.close()
        third.result(PATIENCE_S)
    store.close()


def test_a_server_that_may_come_back_is_waited_for(members: Members) -> None:
    first = members.join()
    store = Store.open(members.url)
    with holder(members.url) as process:
        process.kill()
        process.wait()
        until(lambda: len(first.servers()) == 1)
        assert store.write_sync(lambda tx: tx.servers.stop(first.number, waited=False)) is Leave.UNCLEAR
        members.age(servers.SILENT_S)
        assert store.write_sync(lambda tx: tx.servers.stop(first.number, waited=False)) is Leave.LAST
    store.close()


def test_the_only_server_of_sqlite_ends_its_nodes(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/brickyard.db")
    assert store.write_sync(lambda tx: tx.servers.stop(0, waited=False)) is Leave.LAST
    store.close()


def test_the_interface_is_kept(members: Members) -> None:
    kept: Membership = PostgresMembership(members.url, ABOUT)
    kept.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_text_is_refused_at_the_start(postgres: Postgres, encoding: str) -> None:
    url = postgres.new_database(template="template0", encoding=encoding)
    with pytest.raises(StoreError) as refused:
        membership.take(url, ABOUT)
    assert encoding in str(refused.value) and "UTF8" in str(refused.value)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
