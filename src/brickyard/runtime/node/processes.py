"""A node's processes: starts them so that they end with us, finds them even if detached, reaps orphans without disturbing
owners."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
UNCLAIMED_S = 10.0  # whoever starts a process waits for it sooner than this, so a zombie that is older is an orphan


def adopt_orphans() -> None:
    """From now on, processes below us that lose their parent become our children."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def hide_memory() -> None:
    """Prevents other processes of this user from reading or writing this process's memory, environment and open files."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


class Spawner:
    """Starts processes that the kernel kills when we die.

    The kernel sends the death signal when the *thread* that forked ends, so all forks happen on one thread that lives as long
    as the process. Create the Spawner before any other thread exists.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)  # loaded here, because nothing may be loaded between fork and exec
        self._pid = os.getpid()
        self._work: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._run, name="spawner", daemon=True).start()

    def popen(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Calls `subprocess.Popen` in a new session; the process is killed with us. Raises OSError."""
        future: Future[subprocess.Popen[bytes]] = Future()
        self._work.put((future, list(argv), options))
        return future.result()

    def _run(self) -> None:
        while True:
            future, argv, options = self._work.get()
            try:
                future.set_result(subprocess.Popen(argv, preexec_fn=self._tie, start_new_session=True, **options))  # noqa: PLW1509 - prctl only
            except BaseException as error:
                future.set_exception(error)

    def _tie(self) -> None:
        self._libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != self._pid:  # we died in between
            os._exit(1)


def descendants(root: int) -> list[int]:
    """Returns every living process below `root`. Zombies do not count."""
    below = _families()
    found, level = [], [root]
    while level:
        level = [child for parent in level for child in below.get(parent, [])]
        found += level
    return found


def children(parent: int) -> list[int]:
    """Returns the living processes that `parent` has started itself."""
    return _families().get(parent, [])


def _families() -> dict[int, list[int]]:
    """Returns living processes by their parent."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only, for speed
        if name.isdigit():
            state, parent = _state(int(name))
            if state not in ("", "Z", "X"):
                found.setdefault(parent, []).append(int(name))
    return found


def kill_descendants(root: int, *, rounds: int = 20) -> None:
    """Kills everything that runs below `root`, repeatedly, because processes may fork while they are being killed."""
    for _ in range(rounds):
        pids = descendants(root)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


class Reaper:
    """Reaps orphans that became our children, but not children that somebody's `Popen` will wait for."""

    def __init__(self) -> None:
        self._first_seen: dict[int, float] = {}

    def sweep(self, now: float) -> list[int]:
        """Makes one pass; `now` in seconds. Returns the pids that were reaped."""
        zombies = zombie_children(os.getpid())
        self._first_seen = {pid: self._first_seen.get(pid, now) for pid in zombies}
        reaped = [pid for pid, since in self._first_seen.items() if now - since >= UNCLAIMED_S]
        for pid in reaped:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return reaped


def zombie_children(parent: int) -> set[int]:
    found = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only, for speed
        if name.isdigit() and _state(int(name)) == ("Z", parent):
            found.add(int(name))
    return found


def _state(pid: int) -> tuple[str, int]:
    """Returns a process's state letter and parent, or ("", 0) if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "", 0
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1])
