"""What a server commits is known to the others in a moment, or they know that they may have missed something."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine

from brickyard.store.changes import CHANNEL, MOST_BYTES, ChangeFeed, payloads
from brickyard.store.changeset import Changes, of_words
from brickyard.store.servers import WORKSPACE, Excluded
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres import Postgres


class Feed(ChangeFeed):
    """A feed whose connections the test knows, and can refuse."""

    def __init__(self, url: str, listener: Listener) -> None:
        self._told = listener
        super().__init__(url, listener)

    def connect(self) -> psycopg.Connection[Any]:
        if not self._told.reachable.is_set():
            raise psycopg.OperationalError("the database is away")
        self._told.opened.append(psycopg.connect(self._url, autocommit=True))
        return self._told.opened[-1]


class Listener:
    """A server's feed, and what it was told."""

    def __init__(self, url: str) -> None:
        self.told: list[str] = []
        self.gaps = 0
        self.opened: list[psycopg.Connection[Any]] = []
        self.reachable = threading.Event()
        self.reachable.set()

        self.calls = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.feed = Feed(url, self)

    def changed(self, changes: Changes) -> None:
        self.calls += 1
        self.told.extend(changes.words())
        self.may_go_on.wait(PATIENCE_S)

    def gap(self) -> None:
        self.gaps += 1


@pytest.fixture
def pair(postgres: Postgres) -> Iterator[tuple[Listener, Listener, str]]:
    """Two servers on one database, and its URL."""
    url = postgres.new_database()
    one, other = Listener(url), Listener(url)
    until(lambda: one.gaps == other.gaps == 1)
    yield one, other, url
    one.feed.close()
    other.feed.close()


def commit(listener: Listener, url: str, *clusters: str) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection, connection.begin():
        listener.feed.commit(connection, Changes(clusters=set(clusters)))
    engine.dispose()


def test_others_hear_of_every_commit_and_of_nothing_else(pair: tuple[Listener, Listener, str]) -> None:
    one, other, url = pair
    with psycopg.connect(url) as alone, pytest.raises(Excluded):
        alone.execute(f"SELECT pg_advisory_xact_lock({WORKSPACE})")
        commit(one, url, "never")
    commit(one, url, "a", "b")
    commit(one, url, *(f"cluster-{number:05}" for number in range(3_000)))
    until(lambda: len(other.told) == 3_002)
    assert other.told[:2] == ["ca", "cb"]
    assert one.told == [], "its own commits it knows already"


def test_commits_that_come_while_others_are_told_are_told_together(pair: tuple[Listener, Listener, str]) -> None:
    one, other, url = pair
    other.may_go_on.clear()
    commit(one, url, "first")
    until(lambda: other.calls == 1)
    with psycopg.connect(url, autocommit=True) as third:
        for number in range(50):
            third.execute(f"NOTIFY {CHANNEL}, 'third c{number:02}'")
    other.may_go_on.set()
    until(lambda: len(other.told) == 51)
    assert other.told == ["cfirst", *(f"c{number:02}" for number in range(50))]
    assert other.calls < 10


def test_a_lost_connection_is_a_gap(pair: tuple[Listener, Listener, str]) -> None:
    one, other, url = pair
    other.reachable.clear()
    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute("SELECT pg_terminate_backend(%s)", [other.opened[-1].info.backend_pid])
    until(lambda: other.opened[-1].closed)
    commit(one, url, "missed")
    other.reachable.set()
    until(lambda: other.gaps == 2)
    commit(one, url, "heard")
    until(lambda: other.told == ["cheard"])


def test_a_database_that_hangs_tells_afterwards(postgres: Postgres, pair: tuple[Listener, Listener, str]) -> None:
    one, other, url = pair
    with postgres.hung():
        pass
    commit(one, url, "heard")
    until(lambda: other.told == ["cheard"])


_NAMES = st.sets(st.text("abc-0123456789", min_size=1, max_size=20))


KINDS = ("clusters", "pools", "policies", "instances", "ended")


@given(st.fixed_dictionaries({**dict.fromkeys(KINDS, _NAMES), "runs": st.sets(st.integers(1, 2**48))}))
def test_what_is_told_is_what_was_changed(fields: dict[str, Any]) -> None:
    changes = Changes(**fields)
    assert of_words(changes.words()) == changes
    assert bool(changes) == any(fields.values())


def test_kinds_of_a_newer_server_are_passed_over() -> None:
    assert of_words(["cone", "zsomething"]) == Changes(clusters={"one"})


@given(st.lists(st.text("abcdef-0123456789", min_size=1, max_size=200), max_size=300, unique=True))
def test_all_ids_fit_into_notifications(ids: list[str]) -> None:
    found = []
    for payload in payloads("sender", ids):
        assert len(payload) <= MOST_BYTES + 200
        sender, _, rest = payload.partition(" ")
        assert sender == "sender"
        found += rest.split(",")
    assert sorted(found) == sorted(ids)
