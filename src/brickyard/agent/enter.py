"""The launcher of a node's processes: `python -I -S enter.py PLAN`, PLAN being JSON (see `sandbox.py`, which writes it).

It runs outside of any environment, so it needs the standard library only, and it never returns: it becomes the guardian of
what it starts. Modes:

* `namespaces`: this process (the guardian) unshares user, mount, pid, ipc and uts namespaces and forks; its child is pid 1
  there, builds a root file system of nothing but the plan's mounts, gives up every capability, starts the command and reaps.
  When the command ends, pid 1 ends, and the kernel kills the rest. When the guardian or its parent dies, pid 1 is killed.
* `plain`: no walls. The guardian is the subreaper of all that the command starts, however detached, and kills it when the
  command ends, at SIGTERM, and when its own parent dies.
* `exec`: preparations only (cgroups, limits, death with the parent), then the command in this very process: for bubblewrap,
  which finds the filter of system calls at the descriptor FILTER_FD.

Exit code: the command's (128 + N for signal N), or 71 after a line on stderr that says what could not be set up.
"""

# ruff: noqa: PTH102, PTH103, PTH112, PTH116, PTH120, PTH123, PTH208, PTH211 - pathlib costs start-up time, which every node pays
from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import select
import signal
import stat
import sys
import time

TYPE_CHECKING = False  # typing's own costs an import of `typing`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Plan = dict[str, Any]

FAILED = 71  # EX_OSERR
FILTER_FD = 3

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_SILENT = 1024, 2048, 4096, 16384, 32768
MS_SLAVE, MS_RELATIME = 1 << 19, 1 << 21
MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 36, 38, 22
SECCOMP_MODE_FILTER = 2
KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_JOIN_SESSION_KEYRING = 1
CAPABILITY_VERSION_3 = 0x20080522

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)

libc = ctypes.CDLL(None, use_errno=True)


class SetupError(Exception):
    """Something of the plan could not be set up; the message says what."""


def check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise SetupError(f"{what}: {os.strerror(code)} ({errno.errorcode.get(code, code)})")


def prctl(option: int, value: int) -> int:
    return int(libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = libc.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    check(result, f"cannot mount {kind or source} at {target}")


# ── before anything else ────────────────────────────────────────────────────────────────────────────────────────────────────


def die_with_parent(parent: int, sig: int) -> None:
    """Get `sig` when the parent dies. The check after it closes the race with a parent that died before."""
    check(prctl(PR_SET_PDEATHSIG, sig), "cannot ask for the parent's death signal")
    if os.getppid() != parent:
        raise SetupError("the agent is gone")


def join_cgroups(files: list[str]) -> None:
    for file in files:
        try:
            with open(file, "w") as handle:
                handle.write("0")
        except OSError as error:
            raise SetupError(f"cannot join the control group {file}: {error.strerror}") from error


def join_network(plan: Plan) -> None:
    """Enter the node's network, and the user namespace that owns it (`network.py`). Not of the walls: those are built inside."""
    if plan["network"]:
        for namespace, kind in zip(plan["network"], (CLONE_NEWUSER, CLONE_NEWNET), strict=True):
            check(libc.setns(namespace, kind), "cannot join the node's network")
            os.close(namespace)
        die_with_parent(plan["parent"], signal.SIGKILL)  # again: a change of credentials forgets it


def limit_self() -> None:
    """No core dumps (they hold users' data), and the first choice of the kernel when the machine is out of memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with open("/proc/self/oom_score_adj", "w") as handle:
            handle.write("500")
    except OSError:
        pass  # a preference only


def leave_keyring() -> None:
    """Keys of the session that the server was started in are nobody's business here."""
    number = KEYCTL.get(os.uname().machine)
    if number is not None:
        libc.syscall(
            ctypes.c_long(number), ctypes.c_long(KEYCTL_JOIN_SESSION_KEYRING), None
        )  # no keyrings here: nothing to leave


class Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def filter_calls(program: bytes) -> None:
    """Refuse system calls from now on, here and in all that is started: see `syscalls.py`."""
    if program:
        wanted = Filter(len(program) // 8, program)
        result = libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(wanted), None, None)
        check(result, "cannot filter system calls")


def hand_over_filter(program: bytes) -> None:
    """Leave the filter where bubblewrap is told to find it."""
    if program:
        fd = os.memfd_create("filter", 0)
        os.write(fd, program)
        os.lseek(fd, 0, os.SEEK_SET)
        if fd != FILTER_FD:
            os.dup2(fd, FILTER_FD)
            os.close(fd)


def close_pipes(null: int) -> None:
    """Let go of the command's pipes: its reader sees the end when the command and its children have ended."""
    for fd in (0, 1):
        os.dup2(null, fd)
    os.close(null)


def run_command(plan: Plan) -> None:
    """In the child: become the command."""
    os.setsid()
    check(prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "cannot ask for the parent's death signal")
    for sig in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
    check(prctl(PR_SET_NO_NEW_PRIVS, 1), "cannot give up new privileges")
    os.chdir(plan["cwd"])
    with contextlib.suppress(*((SetupError,) if plan["mode"] == "plain" else ())):  # there it is better than nothing
        filter_calls(bytes.fromhex(plan["filter"]))
    os.execvp(plan["argv"][0], plan["argv"])  # noqa: S606 - no shell is the point


def guarded(step: Callable[..., None], *args: object) -> None:
    """Run a child's part: it never returns into the parent's code, and says why it could not be done."""
    try:
        step(*args)
    except Exception as error:  # whatever it is, it must be said, and end here
        complain(error)
    finally:
        os._exit(FAILED)


def complain(error: Exception) -> None:
    os.write(2, f"sandbox: {error}\n".encode(errors="replace"))


def exit_with(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


# ── namespaces ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def isolate(plan: Plan) -> None:
    """The guardian: unshare, fork pid 1, wait for it."""
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        os.setgroups([])  # cannot be done after `deny`
    namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS
    check(libc.unshare(namespaces), "cannot make namespaces")
    write_map("setgroups", "deny")
    write_map("uid_map", f"{plan['uid']} {uid} 1")
    write_map("gid_map", f"{plan['gid']} {gid} 1")
    die_with_parent(plan["parent"], signal.SIGKILL)  # again: a change of credentials forgets it
    null = os.open("/dev/null", os.O_RDWR)  # now: pid 1 will take our root away, too
    alive, held = os.pipe()  # pid 1 cannot see our pid: it knows that we live while `held` is open
    init = os.fork()
    if init == 0:
        os.close(held)
        guarded(be_init, plan, alive, null)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(init, signal.SIGKILL))
    close_pipes(null)
    drop_capabilities()
    exit_with(wait_for(init))


def write_map(name: str, text: str) -> None:
    try:
        with open(f"/proc/self/{name}", "w") as handle:
            handle.write(text)
    except OSError as error:
        raise SetupError(f"cannot write {name} of the user namespace: {error.strerror}") from error


def wait_for(pid: int) -> int:
    while True:
        done, status = os.wait()
        if done == pid:
            return status


def be_init(plan: Plan, alive: int, null: int) -> None:
    """Pid 1: build the walls, start the command, reap whatever is left to us, end when the command ends."""
    os.setsid()
    check(prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "cannot ask for the parent's death signal")
    if select.select([alive], [], [], 0)[0]:
        raise SetupError("the agent is gone")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hostname = plan["hostname"].encode()
    check(libc.sethostname(hostname, ctypes.c_size_t(len(hostname))), "cannot set the host name")
    forbid_user_namespaces()
    build_root(plan["mounts"])
    drop_capabilities()
    if not plan["argv"]:  # a probe: everything that could fail is done
        filter_calls(bytes.fromhex(plan["filter"]))
        os._exit(0)
    child = os.fork()
    if child == 0:
        os.close(alive)
        guarded(run_command, plan)
    close_pipes(null)
    exit_with(wait_for(child))


def forbid_user_namespaces() -> None:
    """A nested user namespace would give its maker capabilities again, over mounts of its own. Older kernels: not possible."""
    try:
        with open("/proc/sys/user/max_user_namespaces", "w") as handle:
            handle.write("0")
    except OSError:
        pass  # then a nested namespace may be made; its mounts stay locked by ours


def drop_capabilities() -> None:
    """Nothing is left that another program could win back. Also: no core, no ptrace and no /proc/PID/environ of this process."""
    capability = 0
    while prctl(PR_CAPBSET_DROP, capability) == 0:
        capability += 1
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)()), "cannot drop capabilities")
    check(prctl(PR_SET_NO_NEW_PRIVS, 1), "cannot give up new privileges")
    check(prctl(PR_SET_DUMPABLE, 0), "cannot hide the launcher's memory")


def build_root(mounts: list[list[str]]) -> None:
    """A root of the plan's mounts and nothing else. The old one is out of reach afterwards.

    An empty tmpfs becomes the root, with the old root below it at /old as the source of binds and the new one being built
    at /new; the second pivot makes /new the root and lets the old one go.
    """
    mount("", "/", flags=MS_SLAVE | MS_REC | MS_SILENT)
    base = next((path for path in ("/tmp", "/run", "/mnt", "/var") if os.path.isdir(path)), None)  # noqa: S108 - nothing is written there: a mount of our own hides it
    if base is None:
        raise SetupError("there is none of /tmp, /run, /mnt, /var to build a root on")
    mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
    os.mkdir(f"{base}/old")
    os.mkdir(f"{base}/new")
    mount("tmpfs", f"{base}/new", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    check(libc.pivot_root(base.encode(), f"{base}/old".encode()), "cannot change the root")
    os.chdir("/")
    sealed = ["/new"]
    for kind, source, target, option in mounts:
        sealed += place(kind, source, "/new" + target, option)
    for target in sealed:
        restrict(target, MS_RDONLY)
    os.chdir("/new")
    check(libc.pivot_root(b".", b"."), "cannot change the root")
    check(libc.umount2(b".", MNT_DETACH), "cannot let the old root go")
    os.chdir("/")


def place(kind: str, source: str, target: str, option: str) -> list[str]:
    """One mount of the plan. Returns mounts that must be made read-only when everything is placed."""
    if kind == "link":
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(source, target)
    elif kind == "tmpfs":
        os.makedirs(target, exist_ok=True)
        mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, option)
        return [target] if "mode=0555" in option else []
    elif kind == "proc":
        os.makedirs(target, exist_ok=True)
        mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        return [target]  # or everybody could take back that he is the first to go when memory is short (oom_score_adj)
    elif kind == "dev":
        place_devices(target)
    elif kind == "device":
        bind(source, target, MS_RDONLY | MS_NOSUID, devices=True)
    else:
        bind(source, target, MS_NOSUID | (MS_RDONLY if kind == "ro" else 0))
    return []


def bind(source: str, target: str, flags: int, *, devices: bool = False) -> None:
    """Show the host's `source` at `target`, with all that is mounted below it."""
    real = "/old" + source
    try:
        is_directory = stat.S_ISDIR(os.stat(real).st_mode)
        os.makedirs(target if is_directory else os.path.dirname(target), exist_ok=True)
        if not is_directory and not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    except OSError as error:
        raise SetupError(f"cannot show {source}: {error.strerror}") from error
    mount(real, target, flags=MS_BIND | MS_REC | MS_SILENT)
    for inner in mounts_below(target):
        restrict(inner, flags | (0 if devices else MS_NODEV))


def mounts_below(target: str) -> list[str]:
    """`target`, which is a mount, and every mount below it."""
    with open("/old/proc/self/mountinfo") as handle:
        points = [line.split()[4] for line in handle]
    for escaped, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        points = [point.replace(escaped, character) for point in points]  # no codec: its module may be out of sight by now
    return [target, *(point for point in points if point.startswith(target + "/"))]


def restrict(target: str, flags: int) -> None:
    """Add mount flags. Those that are there must be repeated: a user namespace may not take them away."""
    there = os.statvfs(target).f_flag
    keep = there & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME)
    keep |= MS_RELATIME if there & os.ST_RELATIME else 0
    mount("", target, flags=MS_REMOUNT | MS_BIND | MS_SILENT | keep | flags)


def place_devices(target: str) -> None:
    for name in DEVICES:
        bind(f"/dev/{name}", f"{target}/{name}", MS_RDONLY | MS_NOSUID, devices=True)
    for name, source in DEVICE_LINKS:
        os.symlink(source, f"{target}/{name}")
    os.mkdir(f"{target}/pts")
    mount("devpts", f"{target}/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    os.symlink("pts/ptmx", f"{target}/ptmx")


# ── plain ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def supervise(plan: Plan) -> None:
    """The guardian without walls. A descendant cannot leave: orphans become our children."""
    check(prctl(PR_SET_CHILD_SUBREAPER, 1), "cannot adopt orphans")
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        asked = True
        for pid in descendants():
            kill(pid)

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(plan["parent"], signal.SIGTERM)
    child = os.fork()
    if child == 0:
        guarded(run_command, plan)
    close_pipes(os.open("/dev/null", os.O_RDWR))
    status = wait_for(child)
    end_descendants()
    if asked:
        os._exit(128 + signal.SIGTERM)
    exit_with(status)


def end_descendants() -> None:
    """Kill until nobody is left: a process may fork between our look and our signal, but not for ever."""
    for _ in range(200):
        pids = descendants()
        if not pids:
            return
        for pid in pids:
            kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def descendants() -> list[int]:
    """Every process below this one, zombies left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as handle:
                    fields = handle.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [os.getpid()]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(OSError):  # it has just ended, or is not ours to end
        os.kill(pid, signal.SIGKILL)


def main() -> None:
    plan = json.loads(sys.argv[1])
    try:
        mode = plan["mode"]
        die_with_parent(plan["parent"], signal.SIGTERM if mode == "plain" else signal.SIGKILL)
        join_cgroups(plan["cgroups"])
        limit_self()
        leave_keyring()
        join_network(plan)
        if mode == "namespaces":
            isolate(plan)
        elif mode == "plain":
            supervise(plan)
        else:
            hand_over_filter(bytes.fromhex(plan["filter"]))
            os.execvp(plan["argv"][0], plan["argv"])  # noqa: S606 - no shell is the point
    except (SetupError, OSError) as error:
        complain(error)
        os._exit(FAILED)


if __name__ == "__main__":
    main()
