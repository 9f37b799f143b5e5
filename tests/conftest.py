"""Fixtures that every room uses."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from brickyard.store.store import Store
from tests.support.postgres import Postgres, PostgresMissing

BACKENDS = ("sqlite", "postgresql")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A test run in a shell's background ignores it, and so would all that is started here, also what tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL server of this test run's own; skipped only where none can be had, and never in CI."""
    try:
        server = Postgres.start(tmp_path_factory.mktemp("postgres"))
    except PostgresMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(params=BACKENDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once for each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store, once for each kind of database."""
    opened = Store.open(store_url)
    try:
        yield opened
    finally:
        opened.close()
