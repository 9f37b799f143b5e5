"""Processes of a node: started so that they end with us, found wherever they hide, reaped without disturbing their owners."""

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
UNCLAIMED_S = 10.0  # a zombie that nobody has waited for in this time is an orphan: whoever starts a process waits for it sooner


def adopt_orphans() -> None:
    """From now on, processes below us that lose their parent become our children."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def hide_memory() -> None:
    """From now on no other process of this user can read or write this one's memory, environment and open files."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


class Spawner:
    """Starts processes that the kernel kills when we die.

    The kernel sends the death signal when the *thread* that forked ends, so all forks happen on one thread that lives as long
    as the process. Make it before other threads exist.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)  # loaded here: nothing may be loaded between fork and exec
        self._pid = os.getpid()
        self._work: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._run, name="spawner", daemon=True).start()

    def popen(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """`subprocess.Popen` in a session of its own, killed with us. Raises OSError."""
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
    """Every living process below `root`. Zombies do not count."""
    below = _families()
    found, level = [], [root]
    while level:
        level = [child for parent in level for child in below.get(parent, [])]
        found += level
    return found


def children(parent: int) -> list[int]:
    """The living processes that `parent` has started itself."""
    return _families().get(parent, [])


def _families() -> dict[int, list[int]]:
    """Living processes by their parent."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names, quickly
        if name.isdigit():
            state, parent = _state(int(name))
            if state not in ("", "Z", "X"):
                found.setdefault(parent, []).append(int(name))
    return found


def kill_descendants(root: int, *, rounds: int = 20) -> None:
    """Kill all that runs below `root`; repeat, since what is being killed may fork."""
    for _ in range(rounds):
        pids = descendants(root)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


class Reaper:
    """Reaps orphans that became our children, and leaves alone those whose `Popen` somebody is going to wait for."""

    def __init__(self) -> None:
        self._first_seen: dict[int, float] = {}

    def sweep(self, now: float) -> list[int]:
        """One pass; `now` in seconds. Returns the process ids that were reaped."""
        zombies = zombie_children(os.getpid())
        self._first_seen = {pid: self._first_seen.get(pid, now) for pid in zombies}
        reaped = [pid for pid, since in self._first_seen.items() if now - since >= UNCLAIMED_S]
        for pid in reaped:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return reaped


def zombie_children(parent: int) -> set[int]:
    found = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names, quickly
        if name.isdigit() and _state(int(name)) == ("Z", parent):
            found.add(int(name))
    return found


def _state(pid: int) -> tuple[str, int]:
    """State letter and parent of a process; ("", 0) when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "", 0
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1])
