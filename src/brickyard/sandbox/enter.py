"""Launches a node's processes: `python -I -S enter.py PLAN`, where PLAN is JSON written by `sandbox.py`.

It runs outside of any environment, so it uses only the standard library. It never returns: it becomes the guardian of the
processes it starts. Modes:

* `namespaces`: this process (the guardian) unshares user, mount, pid, ipc and uts namespaces and forks. Its child is pid 1 there:
  it builds a root file system from the plan's mounts alone, drops every capability, starts the command and reaps. With `cells` in
  the plan it keeps three capabilities and becomes the warden of the cells (`cells.py`). When the command ends, pid 1 ends, and
  the kernel kills the rest. When the guardian or its parent dies, pid 1 is killed.
* `plain`: no isolation. The guardian is the subreaper of everything that the command starts, however detached. It kills all of it
  when the command ends, at SIGTERM, and when its own parent dies.
* `exec`: only the preparations (cgroups, limits, death with the parent), then the command in this same process. This is for
  bubblewrap, which finds the system call filter at the descriptor FILTER_FD.

Exit code: the command's (128 + N for signal N), or 71 after a line on stderr that says what could not be set up.
"""

# ruff: noqa: PTH100, PTH120, PTH123, PTH208 - pathlib costs start-up time, which every node pays
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time

# Appended last: some of our neighbours have the same names as standard library modules.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from brickyard.machine.linux import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    FAILED,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    SetupError,
    check,
    close_pipes,
    complain,
    die_with_parent,
    drop_capabilities,
    filter_calls,
    guarded,
    libc,
    prctl,
    run_command,
    wait_for,
)
from brickyard.sandbox.roots import build_root
from brickyard.sandbox.ulimits import limit_files, limit_namespace, limit_user

TYPE_CHECKING = False  # importing `typing` costs start-up time
if TYPE_CHECKING:
    from typing import Any

    Plan = dict[str, Any]

FILTER_FD = 3
KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_JOIN_SESSION_KEYRING = 1


# ── preparations ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def join_cgroups(files: list[str]) -> None:
    for file in files:
        try:
            with open(file, "w") as handle:
                handle.write("0")
        except OSError as error:
            raise SetupError(f"cannot join the control group {file}: {error.strerror}") from error


def join_network(plan: Plan) -> None:
    """Enters the node's network and the user namespace that owns it (`network.py`). The isolation itself is built inside
    these."""
    if plan["network"]:
        for namespace, kind in zip(plan["network"], (CLONE_NEWUSER, CLONE_NEWNET), strict=True):
            check(libc.setns(namespace, kind), "cannot join the node's network")
            os.close(namespace)
        die_with_parent(plan["parent"], signal.SIGKILL)  # again, because a change of credentials clears it


def limit_self() -> None:
    """Disables core dumps (they hold users' data), and makes the kernel kill us first when the machine is out of memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_files()
    try:
        with open("/proc/self/oom_score_adj", "w") as handle:
            handle.write("500")
    except OSError:
        pass  # best effort


def leave_keyring() -> None:
    """Leaves the session keyring that the server was started in, so the node cannot use its keys."""
    number = KEYCTL.get(os.uname().machine)
    if number is not None:
        libc.syscall(
            ctypes.c_long(number), ctypes.c_long(KEYCTL_JOIN_SESSION_KEYRING), None
        )  # without keyrings, there is nothing to leave


def hand_over_filter(program: bytes) -> None:
    """Leaves the filter at the descriptor where bubblewrap is told to find it."""
    if program:
        fd = os.memfd_create("filter", 0)
        os.write(fd, program)
        os.lseek(fd, 0, os.SEEK_SET)
        if fd != FILTER_FD:
            os.dup2(fd, FILTER_FD)
            os.close(fd)


def exit_with(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


# ── namespaces ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def isolate(plan: Plan) -> None:
    """The guardian: unshares, forks pid 1, waits for it."""
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        os.setgroups([])  # impossible after `deny`
    namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS
    check(libc.unshare(namespaces), "cannot make namespaces")
    write_map("setgroups", "deny")
    write_map("uid_map", f"{plan['uid']} {uid} 1")
    write_map("gid_map", f"{plan['gid']} {gid} 1")
    die_with_parent(plan["parent"], signal.SIGKILL)  # again, because a change of credentials clears it
    null = os.open("/dev/null", os.O_RDWR)  # opened before pid 1 takes our root away, too
    alive, held = os.pipe()  # pid 1 cannot see our pid: while `held` is open, it knows that we are alive
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


def be_init(plan: Plan, alive: int, null: int) -> None:
    """Pid 1: builds the isolation, starts the command, reaps orphans, and ends when the command ends. With cells, their warden
    does all but the first."""
    os.setsid()
    check(prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "cannot ask for the parent's death signal")
    if select.select([alive], [], [], 0)[0]:
        raise SetupError("the agent has ended")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hostname = plan["hostname"].encode()
    check(libc.sethostname(hostname, ctypes.c_size_t(len(hostname))), "cannot set the host name")
    forbid_user_namespaces()
    limit_user()
    limit_namespace(plan["processes"])
    if plan["cells"]:
        from brickyard.sandbox import cells, kernelgroups  # noqa: PLC0415 - other plans need neither; later the files are not visible

        groups = kernelgroups.opened(plan["cgroups"])
    build_root(plan["mounts"])
    if plan["cells"]:
        exit_with(cells.Warden(plan, groups).run(null))
    drop_capabilities()
    if not plan["argv"]:  # a probe: everything that could fail has succeeded
        filter_calls(bytes.fromhex(plan["filter"]))
        os._exit(0)
    child = os.fork()
    if child == 0:
        os.close(alive)
        guarded(run_command, plan["argv"], plan["cwd"], bytes.fromhex(plan["filter"]))
    close_pipes(null)
    exit_with(wait_for(child))


def forbid_user_namespaces() -> None:
    """Prevents nested user namespaces, which would grant capabilities again over their own mounts. Older kernels cannot."""
    try:
        with open("/proc/sys/user/max_user_namespaces", "w") as handle:
            handle.write("0")
    except OSError:
        pass  # nested namespaces remain possible, but their mounts stay locked by ours


# ── plain ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def supervise(plan: Plan) -> None:
    """The guardian without isolation. Descendants cannot escape: orphans become our children."""
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
        guarded(run_command, plan["argv"], plan["cwd"], bytes.fromhex(plan["filter"]), False)
    close_pipes(os.open("/dev/null", os.O_RDWR))
    status = wait_for(child)
    end_descendants()
    if asked:
        os._exit(128 + signal.SIGTERM)
    exit_with(status)


def end_descendants() -> None:
    """Kills until no descendant is left. A process may fork between the scan and the signal, so this repeats, but not forever."""
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
    """Returns every process below this one, except zombies."""
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
    with contextlib.suppress(OSError):  # it has just ended, or is not ours to kill
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
        limit_user()
        if mode == "plain":
            supervise(plan)
        hand_over_filter(bytes.fromhex(plan["filter"]))
        os.execvp(plan["argv"][0], plan["argv"])  # noqa: S606 - deliberately without a shell
    except (SetupError, OSError) as error:
        complain(error)
        os._exit(FAILED)


if __name__ == "__main__":
    main()
