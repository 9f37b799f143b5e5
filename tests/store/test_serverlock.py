"""A database has one server at a time, and the next as soon as that one is dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from brickyard.store import serverlock
from brickyard.store.serverlock import DatabaseInUse
from brickyard.store.store import StoreError
from tests.support.patience import until
from tests.support.postgres import Postgres

HOLDER = """
import sys, time
from brickyard.store import serverlock
from brickyard.store.serverlock import DatabaseInUse
lock = serverlock.take(sys.argv[1])
print("taken", flush=True)
time.sleep(600)
"""


def test_a_second_server_is_told_who_has_the_database(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serverlock, "PATIENCE_S", 0.2)
    first = serverlock.take(store_url)
    with pytest.raises(DatabaseInUse, match=rf"process {os.getpid()} on .* is using the database .* has one server at a time"):
        serverlock.take(store_url)
    assert first.held()
    first.close()
    serverlock.take(store_url).close()


def test_a_killed_server_is_followed_at_once(store_url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, store_url], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "taken\n"
        holder.send_signal(signal.SIGKILL)
    started = time.monotonic()
    serverlock.take(store_url).close()
    assert time.monotonic() - started < serverlock.PATIENCE_S


def end_sessions(url: str) -> None:
    """What a restart of the database does to them."""
    with psycopg.connect(url, autocommit=True) as connection:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        connection.execute(f"SELECT pg_terminate_backend(pid) {others}")


def test_the_lock_is_taken_again_after_a_restart_of_the_database(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serverlock, "PATIENCE_S", 0.2)
    url = postgres.new_database()
    first = serverlock.take(url)
    end_sessions(url)
    until(first.held)
    with pytest.raises(DatabaseInUse, match="another Brickyard server"):
        serverlock.take(url)
    end_sessions(url)
    second = serverlock.take(url)  # was quicker than the first one's next look
    assert not first.held()
    assert second.held()
    first.close()
    second.close()


def test_schemas_of_one_database_are_databases_of_their_own(postgres: Postgres) -> None:
    url = postgres.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA other")
    first = serverlock.take(url)
    serverlock.take(f"{url}?options=-csearch_path%3Dother").close()
    first.close()


def test_a_place_where_no_lock_can_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot open the database .*No such file or directory"):
        serverlock.take(f"sqlite:///{tmp_path}/none/brickyard.db")
