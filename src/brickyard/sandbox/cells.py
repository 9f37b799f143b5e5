"""Cells: processes in one cell of a node cannot see, signal or trace processes in another.

Pid 1 of a node (`enter.py`) keeps the capability to make namespaces and becomes the warden of the cells. The node host, with
Spark and everything Spark starts, is one cell; each kernel that the node host asks for is another. A cell has its own pid,
mount and IPC namespaces: its /proc shows only itself, and when its command ends or the cell is killed, the kernel kills
whatever is left in it. Where users are kept apart, Spark's Python workers run in such cells too, those of each session in their
own (`runtime/node/pythonworkers/`).

The node host sends requests over a socket that it inherits, together with the directory that holds the kernels' directories.
The variable NODE_CELLS names both descriptors. Messages are JSON, one per packet:

    {"op": "start", "id", "name", "argv", "env"} plus two descriptors: stdin, and stdout with stderr. `name` is a directory in
                                                 that directory; the kernel sees its tmp, home and work as its own.
                                                 "files": a directory below the node's own work, which the kernel sees
                                                 read-only and starts in
    {"op": "interrupt" | "kill", "id"}           interrupt: SIGINT to the command's process group; kill: end the cell
    {"op": "expendable", "pid"}                  this process of the node host's cell is a kernel, too: it is ended first
                                                 when memory is short, and counts among them
    reply: {"id", "status"}                      the cell has ended completely, or could not be started; `status` as from
                                                 waitpid

No other requests exist: the plan decides what a cell sees, and commands run without capabilities. Malformed messages are
dropped.

If the node has a control group, kernels have groups of their own in it (`kernelgroups.py`).
"""

# ruff: noqa: PTH102, PTH116, PTH123, PTH208 - pathlib costs start-up time, which every node pays
from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket

from brickyard.machine.linux import (
    CAP_DAC_OVERRIDE,
    CAP_SETPCAP,
    CAP_SYS_ADMIN,
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWPID,
    FAILED,
    MS_RDONLY,
    MS_SHARED,
    MS_SILENT,
    PR_SET_DUMPABLE,
    SetupError,
    check,
    close_pipes,
    complain,
    drop_capabilities,
    guarded,
    libc,
    mount,
    prctl,
    run_command,
    wait_for,
)
from brickyard.sandbox import kernelgroups
from brickyard.sandbox.roots import DIRECTORY, place, restrict, show
from brickyard.sandbox.ulimits import keep_processes_back

TYPE_CHECKING = False  # importing `typing` costs start-up time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Command = tuple[list[str], dict[str, str], str]  # argv, environment, "files" of a request

KEPT = (CAP_SYS_ADMIN, CAP_SETPCAP, CAP_DAC_OVERRIDE)
MESSAGE = 192 << 10  # maximum bytes of a request
MAX_KERNELS = 512
EXPENDABLE = "900"  # oom_score_adj; other processes of a node have 500
VARIABLE = "NODE_CELLS"


class Warden:
    """Pid 1 of a node. Single-threaded. System calls that wait for the node host return when the node host ends."""

    def __init__(self, plan: dict[str, Any], groups: list[int]) -> None:
        """For `groups`, see `kernelgroups.opened`."""
        self._plan = plan
        self._groups = groups
        self._cells = plan["cells"]
        self._program = bytes.fromhex(plan["filter"])
        self._socket, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._cells["directory"], 0o700)
        self._directory = os.open(self._cells["directory"], DIRECTORY)
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._host_pids = -1
        self._kernels: dict[int, int] = {}  # the node host's id -> pid of the cell's first process
        self._reports: dict[int, int] = {}  # pid of a cell's first process -> pipe on which it reports its command's status
        for target in self._cells["shared"]:
            mount("", target, flags=MS_SHARED | MS_SILENT)  # a mount that `reveal.py` adds for one cell appears in all
        # A process that may write to /tmp can move these mount points away and put something else in their place.
        self._kept = {target: identity(target) for kind, _, target, _ in self._cells["kernel"] if kind == "keep"}
        drop_capabilities(KEPT)

    def run(self, null: int) -> int:
        """Runs until the node host ends; returns its status, as from waitpid."""
        woken, waker = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        host = self._fork(self._be_host, os.dup(null))
        self._theirs.close()
        close_pipes(null)
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(woken, select.POLLIN)
        while True:
            ended = self._reap()
            if host in ended:
                return ended[host]
            for fd, _ in poll.poll():
                if fd == woken:
                    os.read(woken, 4096)
                elif not self._take():
                    poll.unregister(self._socket)

    # ── endings ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _reap(self) -> dict[int, int]:
        """Returns the cells that have ended, with their statuses."""
        ended = {}
        for pid, status in iter(gone, (0, 0)):
            report = self._reports.pop(pid, -1)
            if report < 0:
                continue  # an orphan that pid 1 inherited
            said = os.read(report, 4)  # no writer is left
            os.close(report)
            ended[pid] = int.from_bytes(said, "little") if len(said) == 4 else status
        for number, pid in list(self._kernels.items()):
            if pid in ended:
                del self._kernels[number]
                kernelgroups.remove(self._groups, number)
                self._tell(number, ended[pid])
        return ended

    def _tell(self, number: int, status: int) -> None:
        with contextlib.suppress(OSError):  # the node host is ending
            self._socket.send(json.dumps({"id": number, "status": status}).encode())

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self) -> bool:
        """Handles one request. Returns False when there will be no more."""
        try:
            data, fds, flags, _ = socket.recv_fds(self._socket, MESSAGE, 2, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        try:
            if data and not flags & socket.MSG_TRUNC:
                self._do(json.loads(data), [] if flags & socket.MSG_CTRUNC else fds)
        except Exception as error:  # the node goes on after any error
            complain(error)
        finally:
            for fd in fds:
                os.close(fd)
        return bool(data)

    def _do(self, request: dict[str, Any], fds: list[int]) -> None:
        op, pid = request["op"], self._kernels.get(request.get("id", 0), 0)
        if op == "start":
            if pid or not isinstance(request["id"], int):
                return
            if len(fds) == 2 and len(self._kernels) < MAX_KERNELS:
                self._start(request, fds)
            else:  # the node host waits for its end
                self._refuse(request["id"], f"a node has at most {MAX_KERNELS} cells", fds)
        elif op in ("interrupt", "kill") and pid:
            os.kill(pid, signal.SIGINT if op == "interrupt" else signal.SIGKILL)
        elif op == "expendable" and isinstance(request["pid"], int):
            helper = os.fork()
            if helper == 0:
                guarded(self._mark, request["pid"])

    def _start(self, request: dict[str, Any], fds: list[int]) -> None:
        number, name = request["id"], request["name"]
        argv, env = [str(each) for each in request["argv"]], {str(key): str(value) for key, value in request["env"].items()}
        if not isinstance(number, int) or not is_plain(name):
            raise SetupError("a kernel needs a number and a plain name")
        try:
            groups = kernelgroups.make(self._groups, number)
            command = (argv, env, str(request.get("files") or ""))
            self._kernels[number] = self._fork(self._be_kernel, groups, name, command, fds)
        except (SetupError, OSError) as error:
            kernelgroups.remove(self._groups, number)
            self._refuse(number, str(error), fds)

    def _refuse(self, number: int, why: str, fds: list[int]) -> None:
        """A cell has ended before it began. Without descriptors (pid 1 may have none free), nobody hears why."""
        for output in fds[1:]:
            with contextlib.suppress(OSError):
                os.write(output, f"sandbox: {why}\n".encode(errors="replace"))
        self._tell(number, FAILED << 8)

    # ── cells ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _fork(self, first: Callable[..., None], *args: object) -> int:
        """Forks the first process of a new pid namespace. Raises SetupError, OSError."""
        reading, writing = os.pipe()
        pid = 0
        try:
            check(libc.unshare(CLONE_NEWPID), "cannot make a pid namespace")
            try:
                pid = os.fork()
                if pid == 0:
                    guarded(first, writing, *args)
                self._reports[pid] = reading
                if self._host_pids < 0:
                    self._host_pids = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)
            finally:
                check(libc.setns(self._own_pids, CLONE_NEWPID), "cannot leave a pid namespace")
        finally:
            os.close(writing)
            if not pid:
                os.close(reading)
        return pid

    def _be_host(self, report: int, null: int) -> None:
        enter_cell(self._cells["host"], self._directory)
        keep = (self._theirs.fileno(), self._directory)
        os.environ[VARIABLE] = " ".join(map(str, keep))
        child = self._command(self._plan["argv"], self._plan["cwd"], keep)
        close_pipes(null)
        see_to_end(child, report)

    def _be_kernel(
        self,
        report: int,
        groups: list[tuple[int, str]],
        name: str,
        command: tuple[list[str], dict[str, str], str],
        fds: list[int],
    ) -> None:
        argv, env, files = command
        kernelgroups.enter(groups)
        keep_processes_back()
        for fd, number in ((fds[0], 0), (fds[1], 1), (fds[1], 2)):
            os.dup2(fd, number)
        enter_cell(self._cells["kernel"], self._directory, name=name, kept=self._kept, files=(self._cells["cwd"], files))
        os.environ.clear()
        os.environ.update(env)
        close_others(report)
        child = self._command(argv, files or self._cells["cwd"])
        signal.signal(signal.SIGINT, lambda *_: interrupt(child))
        see_to_end(child, report)

    def _command(self, argv: list[str], cwd: str, keep: tuple[int, ...] = ()) -> int:
        child = os.fork()
        if child == 0:
            for fd in keep:
                os.set_inheritable(fd, True)
            guarded(run_command, argv, cwd, self._program)
        return child

    def _mark(self, pid: int) -> None:
        """Runs in a child: enters the node host's cell to see its processes by their own pids, in a writable /proc."""
        check(libc.unshare(CLONE_NEWNS), "cannot make a mount namespace")
        check(libc.setns(self._host_pids, CLONE_NEWPID), "cannot enter the node host's cell")
        child = os.fork()
        if child == 0:
            for group in self._groups:
                kernelgroups.join_beside(group, pid)
            place("proc", "", "/proc", "")
            expend(str(pid))
            os._exit(0)
        wait_for(child)
        os._exit(0)


def gone() -> tuple[int, int]:
    """Returns the pid and status of a child that has ended, or zeros if there is none."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0


def enter_cell(
    view: list[list[str]],
    directory: int,
    *,
    name: str = "",
    kept: dict[str, tuple[int, int]] | None = None,
    files: tuple[str, str] = ("", ""),
) -> None:
    """Enters new namespaces that show the plan's mounts on top of what the node sees. `name` is the name of a kernel's
    directory; a process with a name is killed first when memory is short. `kept`: the identity that each kept mount must have
    to be shown again. `files`: the node's `work`, and a directory below it to show read-only ("": none). The process has no
    capabilities afterwards."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.fchdir(directory)  # the working directory survives into a new mount namespace, unlike a path that somebody could replace
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWIPC), "cannot make namespaces")
    opened = {target: open_kept(target, known) for target, known in (kept or {}).items()}
    below = open_below(*files) if files[1] else -1
    sealed = []
    for kind, source, target, option in view:
        if kind == "own":
            show(f"/proc/self/fd/{own_directory(name, source)}", target)
        elif kind == "keep":
            show(f"/proc/self/fd/{opened[target]}", target)
            sealed += [target] if option == "ro" else []
        else:
            sealed += place(kind, source, target, option)
    if below >= 0:
        show(f"/proc/self/fd/{below}", files[1])
        sealed.append(files[1])
    if name:
        prctl(PR_SET_DUMPABLE, 1)  # otherwise root owns our /proc files; no other process exists here yet that could read them
        expend("self")
    for target in sealed:
        restrict(target, MS_RDONLY)
    os.chdir("/")
    drop_capabilities()


def identity(place: int | str) -> tuple[int, int]:
    there = os.stat(place)
    return there.st_dev, there.st_ino


def open_kept(target: str, known: tuple[int, int]) -> int:
    fd = os.open(target, os.O_PATH | os.O_CLOEXEC)
    if identity(fd) != known:
        raise SetupError(f"{target} has been replaced since the node started")
    return fd


def open_below(top: str, path: str) -> int:
    """Opens a directory below `top`, following no link. Raises SetupError, OSError."""
    steps = path[len(top) + 1 :].split("/")
    if not path.startswith(top + "/") or not all(steps) or ".." in steps or "." in steps:
        raise SetupError(f"{path} is not below {top}")
    fd = os.open(top, os.O_PATH | DIRECTORY)
    for step in steps:
        outer, fd = fd, os.open(step, os.O_PATH | DIRECTORY, dir_fd=fd)
        os.close(outer)
    return fd


def own_directory(name: str, source: str) -> int:
    """Opens the kernel's own directory, starting from the working directory and following no link."""
    own = os.open(name, os.O_PATH | DIRECTORY)
    try:
        return os.open(source, os.O_PATH | DIRECTORY, dir_fd=own)
    finally:
        os.close(own)


def expend(process: str) -> None:
    with contextlib.suppress(OSError), open(f"/proc/{process}/oom_score_adj", "w") as handle:  # best effort
        handle.write(EXPENDABLE)


def interrupt(group: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGINT)


def see_to_end(child: int, report: int) -> None:
    """Reaps until the command ends, reports its status, and exits; the kernel kills the rest of the cell."""
    os.write(report, wait_for(child).to_bytes(4, "little"))
    os._exit(0)


def close_others(*keep: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def is_plain(name: object) -> bool:
    """Whether `name` is a plain directory name that leads nowhere else."""
    return isinstance(name, str) and len(name) <= 64 and name.replace("-", "").replace("_", "").isalnum() and name.isascii()
