"""What commits have changed, on its way to those who listen: this server's commits, and those of other servers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import structlog
from sqlalchemy import Connection

from brickyard.store.changeset import Changes
from brickyard.store.sharing import Sharing
from brickyard.store.sqlite import DatabaseFile
from brickyard.store.trouble import Health
from brickyard.store.units import Outcome

if TYPE_CHECKING:
    from brickyard.store.changes import ChangeFeed

log = structlog.get_logger(__name__)

Listener = Callable[[Changes], None]


class Commits:
    """A store's own commits, made and announced, and those that its change feed reports. `postgres`: the URL, of such a database
    only."""

    def __init__(self, *, sharing: Sharing, health: Health, file: DatabaseFile | None, postgres: str) -> None:
        self._sharing = sharing
        self._health = health
        self._file = file
        self._listeners: list[Listener] = []
        self._gap_listeners: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._feed = self._open_feed(postgres) if postgres else None

    @property
    def listening(self) -> bool:
        """Whether other servers' commits are heard of, sooner or later."""
        return self._feed is not None and self._feed.listening

    def on_commit(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def on_gap(self, listener: Callable[[], None]) -> None:
        self._gap_listeners.append(listener)

    def tell_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listeners are called on this event loop from now on."""
        self._loop = loop

    def changed(self, changes: Changes) -> None:
        """Another server's commit has changed this. For any thread."""
        self._post(functools.partial(self._tell, changes))

    def gap(self) -> None:
        """Tells everyone who caches something or waits for something that a commit may have been missed. For any thread."""
        self._post(self._tell_gap)

    def close(self) -> None:
        """Hears of no other server's commits any more."""
        if self._feed is not None:
            self._feed.close()

    def commit(self, connection: Connection, changed: Changes) -> None:
        """Commits on PostgreSQL and announces the changes to the other servers, unless there are none. On SQLite, checks that
        what is committed next will be found again.

        If this server has lost its membership, another one may be alone meanwhile and cache its reads: then nothing of this
        server may be committed. Raises Excluded, and sqlite3.OperationalError.
        """
        if self._file is not None:
            self._file.check()
        elif self._feed is not None and not self._sharing.alone:
            self._feed.commit(connection, changed)

    def deliver(self, outcomes: list[Outcome]) -> None:
        """Called on a writer's thread. Listeners run before the callers that await the writes."""
        outcomes = [
            msgspec.structs.replace(each, error=self._health.translated(each.error, unsure=each.unsure)) if each.error else each
            for each in outcomes
        ]
        changed = Changes()
        for outcome in outcomes:
            if outcome.changed is not None:
                changed.add(outcome.changed)
        awaited = [outcome for outcome in outcomes if outcome.unit.loop is not None]

        def tell() -> None:
            if changed:
                self._tell(changed)
            for outcome in awaited:
                outcome.settle()

        self._post(tell)  # one call for a whole transaction: waking the event loop from another thread is expensive
        for outcome in outcomes:
            if outcome.unit.loop is None:
                outcome.settle()

    def _open_feed(self, url: str) -> ChangeFeed:
        from brickyard.store.changes import ChangeFeed  # noqa: PLC0415 - PostgreSQL's driver, only where it is used

        return ChangeFeed(url, self)

    def _tell(self, changed: Changes) -> None:
        for listener in self._listeners:
            _call(listener, changed)

    def _tell_gap(self) -> None:
        for listener in self._gap_listeners:
            _call(listener)

    def _post(self, work: Callable[[], None]) -> None:
        """Runs it on the event loop, or here if there is none."""
        if self._loop is None or self._loop.is_closed():
            work()
        else:
            with contextlib.suppress(RuntimeError):  # it was just closed, so nobody waits there
                self._loop.call_soon_threadsafe(work)


def _call(listener: Callable[..., None], *arguments: Changes) -> None:
    """Calls a listener. One that fails keeps neither the others nor whoever waits for the commit from hearing of it."""
    try:
        listener(*arguments)
    except Exception:
        log.exception("listener_failed")
