"""Tells those who wait for a change of a row that it has come. For one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from brickyard.store.store import Store


class Bells:
    """Bells by id. A bell may ring for nothing; whoever waits reads the row. Clear it before the read: a change after that rings
    again, so none is missed."""

    def __init__(self) -> None:
        self._bells: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def of(self, key: str) -> Iterator[asyncio.Event]:
        """A bell that rings for this id."""
        bell = asyncio.Event()
        bells = self._bells.setdefault(key, set())
        bells.add(bell)
        try:
            yield bell
        finally:
            bells.discard(bell)
            if not bells:
                self._bells.pop(key, None)

    def ring(self, keys: Iterable[str]) -> None:
        """Rings the bells of these ids."""
        for key in keys:
            for bell in self._bells.get(key, ()):
                bell.set()

    def ring_all(self) -> None:
        """Rings every bell."""
        self.ring(list(self._bells))


def cluster_bells(store: Store) -> Bells:
    """Bells that ring when a cluster has changed, here or on another server."""
    bells = Bells()
    store.on_commit(lambda changes: bells.ring(changes.clusters))
    store.on_gap(bells.ring_all)
    return bells
