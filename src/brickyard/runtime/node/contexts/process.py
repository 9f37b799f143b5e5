"""The processes of kernels: our children, beside everything else on the node; or, on clusters that isolate users, each in its
own cell started by the node's first process (`sandbox/cells.py` documents the protocol)."""

from __future__ import annotations

import array
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

VARIABLE = "NODE_CELLS"
PACKAGES = ".packages"
MAX_REQUEST = 160 << 10  # bytes; one packet
USERS = (3, 4)  # the share of processes and threads that users' code may have


class KernelDirectories(NamedTuple):
    """The directories of one kernel: its whole directory, and the directory of its sockets as we see it and as the kernel sees
    it; and where the kernel sees the packages of its context."""

    root: Path
    directory: Path
    inside: Path
    packages: Path


class Process(Protocol):
    """The node host's view of a kernel's process. Methods may be called from any thread."""

    def poll(self) -> int | None:
        """Returns the exit status (negative for a signal), or None while it runs."""
        ...

    def wait(self) -> None: ...

    def interrupt(self) -> None:
        """Sends SIGINT to it and to everything that its code has started."""
        ...

    def kill(self) -> None:
        """Kills it and everything that its code has started."""
        ...


class Starter(Protocol):
    """Starts kernels. The calling thread must live as long as the kernels do."""

    parent: int  # the parent's pid, as a kernel sees it

    def directories(self, node_dir: Path) -> KernelDirectories:
        """Makes the directories of a new kernel. Raises OSError."""
        ...

    def again(self, last: KernelDirectories, node_dir: Path) -> KernelDirectories:
        """Makes the directories of a kernel that takes the place of one that has ended, with the packages of its context. Raises
        OSError."""
        ...

    def start(
        self,
        directories: KernelDirectories,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        node_dir: Path,
        stdin: IO[bytes] | int,
        log: IO[bytes],
    ) -> Process:
        """Starts a kernel. Raises OSError."""
        ...


class Beside:
    """Starts kernels as our children."""

    def __init__(self, cells: Cells | None = None) -> None:
        self.parent = os.getpid()
        self._cells = cells

    def directories(self, node_dir: Path) -> KernelDirectories:
        for name in ("tmp", "home", "work"):
            (node_dir / name).mkdir(parents=True, exist_ok=True)
        directory = _fresh(node_dir / "tmp")
        return KernelDirectories(directory, directory, directory, directory / "packages")

    def again(self, last: KernelDirectories, node_dir: Path) -> KernelDirectories:
        return last

    def start(
        self,
        directories: KernelDirectories,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        node_dir: Path,
        stdin: IO[bytes] | int,
        log: IO[bytes],
    ) -> Process:
        process = subprocess.Popen(
            list(argv), env=dict(env), cwd=str(node_dir / "work"), stdin=stdin, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        _keep_processes_back(process.pid)
        if self._cells is not None:
            self._cells.expendable(process.pid)
        return _Child(process)


def _keep_processes_back(pid: int) -> None:
    """Lets a kernel, and what it starts, make no more processes and threads while the node still has some for Spark
    (`sandbox/ulimits.py`)."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if hard != resource.RLIM_INFINITY:
        users, whole = USERS
        with contextlib.suppress(OSError):  # it has ended
            resource.prlimit(pid, resource.RLIMIT_NPROC, (hard * users // whole,) * 2)


class _Child:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.poll()

    def wait(self) -> None:
        self._process.wait()

    def interrupt(self) -> None:
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        # The process group's id is the process's pid. Once `poll` has seen it end, another process may get that number, unless
        # others of the group are left; those keep the number from being reused.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class Cells:
    """Starts kernels through the node's first process: they cannot see, signal or trace each other."""

    parent = 1

    def __init__(self, control: socket.socket, directory: int) -> None:
        self._socket = control
        self._directory = Path(f"/proc/self/fd/{directory}")  # by descriptor: no cell sees this directory
        self._lock = threading.Lock()
        self._running: dict[int, _InCell] = {}
        self._last = 0
        threading.Thread(target=self._hear, name="cells", daemon=True).start()

    @classmethod
    def inherited(cls) -> Cells | None:
        """Returns the Cells that this process inherited, or None if there are none. No child inherits them."""
        control, _, directory = os.environ.pop(VARIABLE, "").partition(" ")
        if not directory:
            return None
        for fd in (control, directory):
            os.set_inheritable(int(fd), False)
        return cls(socket.socket(fileno=int(control)), int(directory))

    def directories(self, node_dir: Path) -> KernelDirectories:
        root = _fresh(self._directory)
        for name in ("tmp", "home", "work"):
            (root / name).mkdir(mode=0o700)
        directory = root / "tmp" / root.name
        directory.mkdir(mode=0o700)
        return KernelDirectories(root, directory, node_dir / "tmp" / root.name, node_dir / "home" / PACKAGES)

    def again(self, last: KernelDirectories, node_dir: Path) -> KernelDirectories:
        """Other directories: what the user's code has put into the old ones could lead anywhere."""
        new = self.directories(node_dir)
        with contextlib.suppress(FileNotFoundError):
            (last.root / "home" / PACKAGES).rename(new.root / "home" / PACKAGES)
        shutil.rmtree(str(last.root), ignore_errors=True)
        return new

    def start(
        self,
        directories: KernelDirectories,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        node_dir: Path,
        stdin: IO[bytes] | int,
        log: IO[bytes],
        files: str = "",
    ) -> Process:
        """`files`: a directory below the node's `work`, which the process sees read-only and starts in."""
        with self._lock:
            self._last += 1
            number = self._last
            process = self._running[number] = _InCell(self, number)
        name = directories.root.name
        request = {"op": "start", "id": number, "name": name, "argv": list(argv), "env": dict(env), "files": files}
        null = os.open(os.devnull, os.O_RDWR)
        try:
            given = null if stdin == subprocess.DEVNULL else stdin if isinstance(stdin, int) else stdin.fileno()
            self._ask(request, [given, log.fileno()])
        except OSError:
            del self._running[number]
            raise
        finally:
            os.close(null)
        return process

    def expendable(self, pid: int) -> None:
        """Marks a process of ours as users' code: it is killed first when memory is short, and counts among the kernels."""
        with contextlib.suppress(OSError):  # best effort
            self._ask({"op": "expendable", "pid": pid})

    def press(self, op: str, number: int) -> None:
        with contextlib.suppress(OSError):  # the node is ending, and the kernel with it
            self._ask({"op": op, "id": number})

    def _ask(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        data = json.dumps(request).encode()
        if len(data) > MAX_REQUEST:
            raise OSError("its environment is too large (spark_env_vars)")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self._socket.sendmsg([data], rights)

    def _hear(self) -> None:
        while data := self._socket.recv(4096):
            answer = json.loads(data)
            with self._lock:
                process = self._running.pop(answer["id"], None)
            if process is not None:
                process.end(answer["status"])


class _InCell:
    def __init__(self, cells: Cells, number: int) -> None:
        self._cells = cells
        self._number = number
        self._ended = threading.Event()
        self._code = 0

    def poll(self) -> int | None:
        return self._code if self._ended.is_set() else None

    def wait(self) -> None:
        self._ended.wait()

    def interrupt(self) -> None:
        self._cells.press("interrupt", self._number)

    def kill(self) -> None:
        self._cells.press("kill", self._number)

    def end(self, status: int) -> None:
        """Records that it has ended, with a status as from waitpid."""
        self._code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self._ended.set()


def _fresh(parent: Path) -> Path:
    from tempfile import mkdtemp  # imported here because node hosts start without it

    return Path(mkdtemp(prefix="kernel-", dir=str(parent)))
