"""The change feed: what other servers' commits on the shared PostgreSQL database have changed (`changeset.py`).

Every commit that changes something announces it with NOTIFY inside its own transaction, so it is announced exactly if it is
committed. Every server listens on a separate connection. A notification is a hint to look sooner, never proof that a server knows
everything: a server that is not alone reads from the database.

A lost connection is a gap: changes may have been missed, and everything that waits for one is told.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import psycopg
import structlog
from psycopg.sql import Literal
from sqlalchemy import Connection

from brickyard.store import postgres
from brickyard.store.changeset import Changes, of_words
from brickyard.store.servers import commit_shared

log = structlog.get_logger(__name__)

CHANNEL = "brickyard_changes"
LOOK_S = 0.2  # how soon it notices that it should close
CLOSE_S = 1.0
AGAIN_S = (0.1, 3.0)  # shortest and longest pause before reconnecting
PACE_S = 0.02  # between two looks: what a busy server commits meanwhile wakes the event loop once
MOST_BYTES = 7_000  # per notification: PostgreSQL's limit is just below 8,000


class Listener(Protocol):
    """Who hears of the commits of other servers, on the feed's thread: the store."""

    def changed(self, changes: Changes) -> None:
        """What a commit has changed."""

    def gap(self) -> None:
        """Some changes may have been missed."""


class ChangeFeed:
    """Of a PostgreSQL database. Call `close` when done."""

    def __init__(self, url: str, listener: Listener) -> None:
        self._url = url
        self._listener = listener
        self._me = uuid.uuid4().hex[:12]
        self.listening = False  # whether other servers' commits are reported, sooner or later
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="store-changes", daemon=True)
        self._thread.start()

    def commit(self, connection: Connection, changed: Changes) -> None:
        """Commits, which tells the other servers. Raises Excluded."""
        notes = (f"NOTIFY {CHANNEL}, {Literal(payload).as_string()}; " for payload in payloads(self._me, changed.words()))
        commit_shared(connection, "".join(notes))

    def close(self) -> None:
        """Stops the feed. Does not wait for a database that hangs."""
        self._closed = True
        self._thread.join(CLOSE_S)

    def connect(self) -> psycopg.Connection[Any]:
        """A connection with autocommit."""
        return postgres.connect(self._url)

    def _run(self) -> None:
        pause_s, longest_s = AGAIN_S
        lost = False
        while not self._closed:
            try:
                with self.connect() as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self.listening = True
                    self._listener.gap()
                    if lost:
                        log.info("change_feed_is_back")
                    pause_s, lost = AGAIN_S[0], False
                    self._follow(connection)
            except Exception as error:  # of any kind: a feed that has ended while it counts as listening would lose changes
                self.listening = False
                if not lost and not self._closed:
                    lost = True
                    log.info("change_feed_is_lost", why=(str(error).strip().splitlines() or [type(error).__name__])[0])
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, longest_s)

    def _follow(self, connection: psycopg.Connection[Any]) -> None:
        while not self._closed:
            heard, words = False, list[str]()
            for note in connection.notifies(timeout=LOOK_S, stop_after=1):  # all that have arrived, as soon as there is one
                heard = True
                sender, _, told = note.payload.partition(" ")
                if sender != self._me:
                    words += told.split(",")
            if words:
                self._listener.changed(of_words(words))
            if heard:
                self._sleep(PACE_S)

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._closed and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))


def payloads(sender: str, words: Iterable[str]) -> Iterator[str]:
    """`SENDER WORD,WORD,...` in as many notifications as needed. Words are ASCII without commas and blanks."""
    batch: list[str] = []
    size = len(sender) + 1
    for each in words:
        if batch and size + len(each) + 1 > MOST_BYTES:
            yield f"{sender} {','.join(batch)}"
            batch, size = [], len(sender) + 1
        batch.append(each)
        size += len(each) + 1
    if batch:
        yield f"{sender} {','.join(batch)}"
