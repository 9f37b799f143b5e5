"""Control groups: limits on a node's processes, where the host lets us write them. Supports versions 1 and 2.

Each instance has a group `brickyard-<instance_id>` with a limit on memory and on the number of tasks, and a weight (no limit) for
CPU time: a node's cores are logical, and a node may use the CPU time of an otherwise idle machine.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Literal

import msgspec

_MIB = 1 << 20
_PREFIX = "brickyard-"
_FORGOTTEN_S = 600.0  # processes join a group right after it is made: one that stays empty this long is abandoned
_CGROUP = "cgroup"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a node may use."""

    memory_mb: int
    cores: float

    @property
    def tasks(self) -> int:
        """The limit on processes and threads: generous for Spark, tight for a fork bomb."""
        return 4096 + int(256 * self.cores)

    @property
    def weight(self) -> int:
        """The CPU weight for version 2 (1-10000; a group without a weight gets 100)."""
        return max(1, min(10_000, int(100 * self.cores)))


class Group(msgspec.Struct, frozen=True):
    """An instance's control group: one directory with version 2, one per controller with version 1. Without any, `reason` says
    why."""

    directories: tuple[str, ...] = ()
    reason: str = ""

    @property
    def text(self) -> str:
        """The text for NodeStatus.limits."""
        return _CGROUP if self.directories else f"watched: {self.reason}"

    @property
    def entries(self) -> list[str]:
        """The files to which a process writes "0" to join."""
        return [f"{directory}/cgroup.procs" for directory in self.directories]

    def out_of_memory(self) -> Literal["", "limit", "machine"]:
        """Whether the kernel killed one of its processes for want of memory: because of the group's limit, or of the machine's.
        The first version of control groups does not tell: there it counts as the limit."""
        counts = self._memory_events()
        return "" if not counts.get("oom_kill") else "machine" if counts.get("oom") == 0 else "limit"

    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed for want of memory."""
        return self._memory_events().get("oom_kill", 0)

    def _memory_events(self) -> dict[str, int]:
        for directory in self.directories:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError, ValueError):
                    lines = Path(directory, name).read_text().splitlines()
                    counts = {key: int(count) for key, _, count in (line.partition(" ") for line in lines)}
                    if "oom_kill" in counts:
                        return counts
        return {}

    def processes(self) -> set[int]:
        """The pids in the group."""
        found: set[int] = set()
        for directory in self.directories:
            for each, _, _ in os.walk(directory):  # kernels are in groups below
                with contextlib.suppress(OSError), open(f"{each}/cgroup.procs", "rb") as handle:  # noqa: PTH123 - runs every second
                    found.update(map(int, handle.read().split()))
        return found

    def tasks(self) -> int:
        """How many processes and threads are in the group; 0 if that cannot be read."""
        for directory in self.directories:
            with contextlib.suppress(OSError, ValueError):  # version 1: of another controller
                return int(Path(directory, "pids.current").read_text())
        return 0

    def refusals(self) -> int:
        """How often the kernel has refused a process or thread, because the whole group had as many as it may have."""
        for directory in self.directories:
            for name in ("pids.events.local", "pids.events"):  # the second is version 1's, and also counts the groups below in 2
                with contextlib.suppress(OSError, ValueError, IndexError):
                    return int(Path(directory, name).read_text().split()[1])
        return 0

    def remove(self, *, patience_s: float = 1.0) -> bool:
        """Kills the processes left in the group and removes it. Returns False if that took too long: call again."""
        deadline = time.monotonic() + patience_s
        while True:
            for pid in self.processes():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            left = False
            for directory in self.directories:
                try:
                    _remove(Path(directory))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    left = left or error.errno == errno.EBUSY
            if not left:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)


def create(instance_id: str, limits: Limits, *, root: Path = Path("/"), pid: str = "self") -> Group:
    """Makes the instance's group and sets its limits. Never raises: a group without directories has a `reason`.

    `root` is where /proc and /sys are found; tests change it.
    """
    try:
        mounts = _mounts(root, pid)
        own = _own_groups(root, pid)
    except OSError as error:
        return Group(reason=f"control groups cannot be read ({error.strerror})")
    name = _PREFIX + instance_id
    group = Group(reason="no control groups are mounted")
    if {"memory", "pids"} <= mounts.keys():
        group = _create_v1(name, limits, mounts, own)
    elif "" in mounts:
        group = _create_v2(name, limits, mounts[""], own.get("", "/"))
    for directory in group.directories:
        _sweep(Path(directory).parent, now=time.time())
    return group


def _sweep(parent: Path, *, now: float) -> None:
    """Removes groups left behind by agents that were killed and that nothing else knows of."""
    for group in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it has processes, or has just been removed
            if now - group.stat().st_mtime > _FORGOTTEN_S:
                _remove(group)


def _remove(group: Path) -> None:
    """Removes a group with the groups of users' code (`cells.py`) that a killed node left in it. Raises OSError."""
    for path in group.iterdir():
        if path.is_dir():
            _remove(path)
    group.rmdir()


def scope(*, linger: Path = Path("/var/lib/systemd/linger")) -> list[str]:
    """Returns the words to put before a command so that systemd starts it where an ordinary user may write control groups.

    Empty if they can be written anyway, or if there is no suitable systemd. systemd is used only if the user's processes
    outlive the login (`loginctl enable-linger`): otherwise it ends its scopes with the user's last session.
    """
    program = shutil.which("systemd-run")
    if os.geteuid() == 0 or program is None or not _lingers(linger) or probe() == _CGROUP:
        return []
    prefix = [program, "--user", "--scope", "--quiet", "--collect", "-p", "Delegate=yes", "--"]
    try:
        done = subprocess.run([*prefix, "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return prefix if done.returncode == 0 else []


def _lingers(directory: Path) -> bool:
    try:
        return (directory / pwd.getpwuid(os.geteuid()).pw_name).exists()
    except KeyError:  # a user id without a name, as in containers
        return False


def probe() -> str:
    """Returns which limits nodes can have on this machine, worded as `Group.text`. Makes a group and removes it again."""
    group = create(f"probe-{os.getpid()}", Limits(memory_mb=1024, cores=1.0))
    group.remove(patience_s=0)
    return group.text


def _mounts(root: Path, pid: str) -> dict[str, tuple[Path, str]]:
    """Returns controller -> (mount point, group that the mount's root shows); "" means version 2."""
    found: dict[str, tuple[Path, str]] = {}
    for line in (root / f"proc/{pid}/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split(" ", 2)
        where = (root / fields[4].lstrip("/"), fields[3])
        if kind == "cgroup2":
            found.setdefault("", where)
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, where)
    return found


def _own_groups(root: Path, pid: str) -> dict[str, str]:
    """Returns controller -> our own group; "" means version 2."""
    found = {}
    for line in (root / f"proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _below(mount: tuple[Path, str], group: str) -> Path:
    """Returns the directory of a group; in a container the mount shows only part of the tree."""
    point, shown = mount
    inside = group[len(shown) :] if shown != "/" and group.startswith(shown) else group
    return point / inside.lstrip("/")


def _create_v1(name: str, limits: Limits, mounts: dict[str, tuple[Path, str]], own: dict[str, str]) -> Group:
    settings = {
        "memory": [("memory.limit_in_bytes", limits.memory_mb * _MIB)],
        "pids": [("pids.max", limits.tasks)],
        "cpu": [("cpu.shares", max(2, int(1024 * limits.cores)))],
    }
    made: list[str] = []
    for controller, values in settings.items():
        if controller not in mounts:
            continue
        directory = _below(mounts[controller], own.get(controller, "/")) / name
        try:
            directory.mkdir(exist_ok=True)
            made.append(str(directory))
            for file, value in values:
                (directory / file).write_text(str(value))
        except OSError as error:
            Group(tuple(made)).remove(patience_s=0)
            return Group(reason=f"{directory} cannot be written ({error.strerror})")
    return Group(tuple(dict.fromkeys(made)))  # controllers may share a mount and therefore a directory


def _create_v2(name: str, limits: Limits, mount: tuple[Path, str], own: str) -> Group:
    """Version 2 forbids limits below a group that has its own processes, so this looks upwards for a group where it works."""
    directory, top = _below(mount, own), mount[0]
    reason = f"{directory} cannot be written"
    while True:
        group = directory / name
        try:
            _enable(directory, is_root=directory == top)
            group.mkdir(exist_ok=True)
            for file, value in (("memory.max", limits.memory_mb * _MIB), ("pids.max", limits.tasks)):
                (group / file).write_text(str(value))
            with contextlib.suppress(OSError):
                (group / "cpu.weight").write_text(str(limits.weight))
            with contextlib.suppress(OSError):
                (group / "memory.oom.group").write_text("0")
            return Group((str(group),))
        except OSError as error:
            reason = f"{group} cannot be limited ({error.strerror})"
            with contextlib.suppress(OSError):
                group.rmdir()
        if directory == top or top not in directory.parents:
            return Group(reason=reason)
        directory = directory.parent


def _enable(directory: Path, *, is_root: bool) -> None:
    """Allows groups below `directory` to have limits, if that is possible and not done yet."""
    enabled = (directory / "cgroup.subtree_control").read_text().split()
    missing = [name for name in ("memory", "pids") if name not in enabled]
    if not missing:
        return
    if not is_root and (directory / "cgroup.procs").read_text().strip():
        raise OSError(errno.EBUSY, f"{directory} has its own processes")
    (directory / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in missing))
