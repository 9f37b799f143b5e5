"""A server's data directory: its lock, and the file that says where the server is."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from brickyard.machine import locks, processes
from brickyard.storage.directory import Storage
from brickyard.storage.private import WorkspaceError, prepare, unusable, write_over

__all__ = ["RunningServer", "Workspace", "WorkspaceError"]

DATABASE = "brickyard.db"  # in the data directory, without `database_url`
LOCK_PATIENCE_S = 0.5  # `running` holds the lock for an instant, so one failed attempt is not a refusal
_CALLED = "data directory"
_REMEDY = "choose another with --data-dir"
SAME_START_S = 5.0  # tolerance: the clock that start times come from may be set while a server runs


class RunningServer(NamedTuple):
    """The server that holds a data directory; `about` is what it announced (see `announce`).

    `url` is "" while it starts; `pid` is 0 if its process is not visible from here.
    """

    pid: int
    url: str
    about: dict[str, str] = {}

    @property
    def client_url(self) -> str:
        """The URL for people and clients, which `external_url` may name."""
        return self.about.get("client_url") or self.url

    def __str__(self) -> str:
        return f"process {self.pid} at {self.url}" if self.url else f"process {self.pid}, which is starting or stopping"


class RemovedFiles(NamedTuple):
    """Files of a data directory that were removed while a process of its server has them open: the descriptor of each, by its
    name."""

    pid: int
    files: dict[str, int]


class Workspace:
    """A data directory and the storage for its server: the directory itself unless another is given."""

    def __init__(self, data_dir: Path, storage_dir: Path | None = None) -> None:
        self.data_dir = data_dir
        self._storage_dir = storage_dir or data_dir
        self._lock: int | None = None

    @property
    def server_file(self) -> Path:
        return self.data_dir / "server.json"

    @property
    def log_file(self) -> Path:
        return self.data_dir / "server.log"

    @property
    def _keep_file(self) -> Path:
        return self.data_dir / "keep-nodes"

    def prepare(self) -> str:
        """Creates the directory and the storage, accessible only to their owner. Raises WorkspaceError. Returns a warning if a
        disk is full and the server can start nevertheless, else ""."""
        known = (self.data_dir / "server.lock").exists()
        full = [prepare(self.data_dir, known=known, called=_CALLED, remedy=_REMEDY)]
        if self._storage_dir != self.data_dir:
            full.append(Storage(self._storage_dir).prepare(instead_of=Storage(self.data_dir)))
        Storage(self._storage_dir).check_names()
        why = "; ".join(each for each in full if each)
        return f"{why}. Until there is room, terminate clusters and delete files; nothing else may work." if why else ""

    def lock(self) -> None:
        """Locks the directory until this process ends, even if killed. Raises WorkspaceError if another server holds it."""
        try:
            handle = os.open(self.data_dir / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not locks.take(handle, patience_s=LOCK_PATIENCE_S):
                os.close(handle)
                raise WorkspaceError(
                    f"another Brickyard server ({self.running() or 'about to end'}) is using {self.data_dir}. Stop it with "
                    "`brickyard down`, or choose another --data-dir."
                )
            import psutil  # noqa: PLC0415 - most commands do without

            holder = f"{os.getpid()} {psutil.Process().create_time():.2f}\n".encode()
            os.pwrite(handle, holder, 0)
            os.ftruncate(handle, len(holder))
            self._blank()  # of a server that was killed
            self._keep_file.unlink(missing_ok=True)  # a request that it did not live to fulfil
        except OSError as error:
            raise self._unusable(error) from error
        self._lock = handle

    def _blank(self) -> None:
        """Blanks the record of a server in place: on a full disk, the next record needs the room and the inode."""
        with contextlib.suppress(FileNotFoundError), self.server_file.open("r+b") as file:
            file.write(b" " * self.server_file.stat().st_size)

    def unlock(self) -> None:
        """Releases the directory before this process ends."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def running(self) -> RunningServer | None:
        """The server that holds the directory, or None. The lock decides, since a killed server leaves its files behind."""
        deadline = time.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                handle = os.open(self.data_dir / "server.lock", os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                return None
            try:
                if locks.take(handle, shared=True):
                    return None
                pid = _holder(os.read(handle, 64))
            finally:
                os.close(handle)
            if pid or time.monotonic() > deadline:
                return self._described(pid)
            time.sleep(0.01)  # its holder is about to write its process id there, or has just ended

    def removed(self) -> RemovedFiles | None:
        """What was removed under a server that still runs: then neither its lock nor its database is where it was."""
        place = os.path.realpath(self.data_dir)
        wanted = {f"{place}/{name} (deleted)": name for name in ("server.lock", DATABASE, f"{DATABASE}-wal")}
        for process in Path("/proc").glob("[0-9]*"):
            files: dict[str, int] = {}
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                for link in sorted((process / "fd").iterdir(), key=lambda link: int(link.name)):
                    with contextlib.suppress(OSError):
                        if (name := wanted.get(os.readlink(link))) is not None:  # noqa: PTH115 - as it is, whatever it was
                            files.setdefault(name, int(link.name))
            if files.keys() - {f"{DATABASE}-wal"}:  # what was in the log alone is written when the server stops
                return RemovedFiles(int(process.name), files)
        return None

    def stop(self, running: RunningServer, *, keep_nodes: bool) -> None:
        """Asks the server to end; returns at once. Raises WorkspaceError."""
        if not running.pid:
            raise WorkspaceError(
                f"the server on {self.data_dir} cannot be stopped from here: its process is in another container."
            )
        try:
            if keep_nodes:
                self._keep_file.touch()
            os.kill(running.pid, signal.SIGTERM)
        except ProcessLookupError:
            return
        except OSError as error:
            raise WorkspaceError(f"cannot stop process {running.pid}: {error.strerror}. Do it as its own user.") from error

    def asked_to_keep_nodes(self) -> bool:
        """Whether `stop` asked for it; clears the request."""
        asked = self._keep_file.exists()
        self._keep_file.unlink(missing_ok=True)
        return asked

    def announce(self, url: str, **about: str) -> None:
        """Records the server's URL and other facts for agents and commands. Raises WorkspaceError."""
        itself = processes.find(os.getpid())
        note = {**about, "pid": os.getpid(), "start": itself.start if itself is not None else 0, "url": url}
        try:
            write_over(self.server_file, json.dumps(note))
        except OSError as error:
            raise self._unusable(error) from error

    def withdraw(self) -> None:
        """Blanks the record: the server has stopped."""
        with contextlib.suppress(OSError):  # the next server does so, too
            self._blank()

    @property
    def storage(self) -> Storage:
        """The storage of the running server; if none runs, the storage that a server would use."""
        running = self.running()
        told = running.about.get("storage_dir") if running is not None else None
        return Storage(Path(told) if told else self._storage_dir)

    def stored_token(self) -> str:
        """The administrator's token of a workspace that has been started before. Raises WorkspaceError."""
        return self.storage.stored_token()

    def _described(self, pid: int) -> RunningServer:
        try:
            note = json.loads(self.server_file.read_text())
            if note.pop("pid") == pid or not pid:
                return RunningServer(pid, str(note.pop("url")), {key: str(value) for key, value in note.items()})
        except (OSError, ValueError, KeyError, AttributeError):
            pass  # not written yet, or withdrawn
        return RunningServer(pid, "")

    def _unusable(self, error: OSError) -> WorkspaceError:
        return unusable(self.data_dir, error, called=_CALLED, remedy=_REMEDY)


def _holder(written: bytes) -> int:
    """The process that wrote its id and start time into the lock; 0 unless that process, not a later one with its id, lives."""
    import psutil  # noqa: PLC0415 - as above

    try:
        pid, started_s = written.split()
        return int(pid) if abs(psutil.Process(int(pid)).create_time() - float(started_s)) < SAME_START_S else 0
    except (ValueError, psutil.Error):
        return 0


@contextlib.contextmanager
def alone(workspace: Workspace, storage: Storage) -> Iterator[None]:
    """Makes the directories if they are not there, and keeps every server out of them; closes the storage at the end. Raises
    WorkspaceError."""
    workspace.prepare()
    workspace.lock()
    try:
        with contextlib.closing(storage):
            storage.hold(alone=True)
            yield
    finally:
        workspace.unlock()
