"""A server is stopped inside a commit: the others end its sessions, so it does not block them or commit behind their backs."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from brickyard.store import membership, servers
from brickyard.store.servers import About
from brickyard.store.store import Store
from brickyard.testing.builders import cluster
from tests.support.patience import Stopwatch, until
from tests.support.postgres import Postgres

ABOUT = About(host="here", pid=1, version="1", provider="simulated", storage="/data")
KEY = cluster().cluster_id

# It stops itself just before the commit that removes the cluster, after the last look at whether it is alone.
FROZEN = """
import signal
import sys
import threading
import structlog
from brickyard.domain.errors import DatabaseTrouble
from brickyard.store import membership
from brickyard.store.servers import About
from brickyard.store.store import Store
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
member = membership.take(sys.argv[1], About(host="here", pid=2, version="1", provider="simulated", storage="/data"))
Store.open(sys.argv[1]).close()
member.join()
ready = False

class Freezing:
    @property
    def alone(self):
        answer = member.alone
        if ready:
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread: else it may commit before another stops it
        return answer

store = Store.open(sys.argv[1], sharing=Freezing())
print("joined", member.alone, flush=True)
sys.stdin.readline()
ready = True
try:
    store.write_sync(lambda tx: tx.clusters.delete(sys.argv[2]))
    print("committed", flush=True)
except DatabaseTrouble as error:
    print(type(error).__name__, flush=True)
"""


@contextmanager
def frozen(url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", FROZEN, url, KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")


def is_stopped(process: subprocess.Popen[str]) -> bool:
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


@pytest.fixture
def url(postgres: Postgres) -> str:
    made = postgres.new_database()
    store = Store.open(made)
    store.write_sync(lambda tx: tx.clusters.insert(cluster()))
    store.close()
    return made


def test_one_of_several_holds_nothing_up_and_its_commit_is_never_made(url: str) -> None:
    member = membership.take(url, ABOUT)
    member.join()
    store = Store.open(url, sharing=member)
    try:
        with frozen(url) as other:
            assert heard(other) == "joined False"
            go_on(other)
            until(lambda: is_stopped(other), "it is stopped")
            watch = Stopwatch()
            store.write_sync(lambda tx: tx.clusters.wake(KEY, 1))  # waits for the row that the other one has locked
            assert watch.took_s < servers.SILENT_S + 4
            other.send_signal(signal.SIGCONT)
            assert heard(other) == "DatabaseAway"
            assert store.read_sync(lambda tx: tx.clusters.existing([KEY])) == {KEY}
    finally:
        store.close()
        member.close()


def test_one_that_was_alone_does_not_commit_unnoticed(url: str) -> None:
    """The server that joins is alone itself later, and keeps what it reads: nothing may change behind it."""
    with frozen(url) as other:
        assert heard(other) == "joined True"
        go_on(other)
        until(lambda: is_stopped(other), "it is stopped")
        member = membership.take(url, ABOUT)
        member.join()
        store = Store.open(url, sharing=member)
        try:
            other.send_signal(signal.SIGCONT)
            assert heard(other) == "DatabaseAway"
            assert store.read_sync(lambda tx: tx.clusters.existing([KEY])) == {KEY}
        finally:
            store.close()
            member.close()
