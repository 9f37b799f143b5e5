"""The sandbox: everything that users' code can reach starts through `Sandbox.command`.

`view.py` says what the processes may see, and an implementation turns that into a command line:
`Bubblewrap` if bwrap is installed and works, `Namespaces` (our own launcher, `enter.py`) if the host allows them,
`Plain` otherwise. `probe` finds out by trying, because no file says what a host allows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from brickyard.machine.processes import MARKER
from brickyard.sandbox import syscalls
from brickyard.sandbox.view import View, cells, inner_uid, mounts

Kind = Literal["bubblewrap", "namespaces", "none"]
Mode = Literal["auto", "required", "off"]
Network = tuple[int, int]  # descriptors of the user namespace that owns a network, and of the network; the launcher inherits both

ENTER = Path(__file__).with_name("enter.py")
REVEAL = Path(__file__).with_name("reveal.py")
FILTER_FD = 3  # as in enter.py
CELL_LEVELS = 3  # launcher, pid 1, first process of the node host's cell


class Isolation(msgspec.Struct, frozen=True):
    """What the host allows. `reason` says why it does not allow more, and what to do about it."""

    kind: Kind
    reason: str = ""

    @property
    def text(self) -> str:
        """The text for NodeStatus.isolation."""
        return self.kind if self.kind != "none" else f"none: {self.reason}"


class Sandbox(Protocol):
    """Turns a command into one that runs isolated. Start the result with a clean environment. When it is killed or its parent
    dies, everything that it started dies."""

    kind: Kind

    def command(
        self, argv: Sequence[str], *, view: View, cgroups: Sequence[str] = (), network: Network | None = None
    ) -> list[str]:
        """Returns the command line. `cgroups` are `cgroup.procs` files to join first; `network` replaces the caller's network."""
        ...


class Namespaces:
    """Isolation by our own launcher."""

    kind: Kind = "namespaces"

    def __init__(self, *, python: str = sys.executable) -> None:
        self._python = python

    def command(
        self, argv: Sequence[str], *, view: View, cgroups: Sequence[str] = (), network: Network | None = None
    ) -> list[str]:
        return enter(
            self._python, "namespaces", argv, cgroups=cgroups, network=network, hostname=view.hostname, uid=inner_uid(),
            gid=inner_uid(), mounts=mounts(view), cells=cells(view) if view.cells else None, processes=view.processes,
        )  # fmt: skip


class Bubblewrap:
    """Isolation by bwrap; our launcher first joins the control groups and asks for the parent's death signal."""

    kind: Kind = "bubblewrap"

    def __init__(self, *, bwrap: str, python: str = sys.executable) -> None:
        self._bwrap = bwrap
        self._python = python

    def command(
        self, argv: Sequence[str], *, view: View, cgroups: Sequence[str] = (), network: Network | None = None
    ) -> list[str]:
        uid = str(inner_uid())
        wrap = [self._bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--disable-userns"]
        wrap += [
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--uid",
            uid,
            "--gid",
            uid,
            "--hostname",
            view.hostname,
        ]
        if syscalls.program():
            wrap += ["--seccomp", str(FILTER_FD)]
        sealed: list[str] = ["--remount-ro", "/"]
        for kind, source, target, option in mounts(view):
            wrap += self._mount(kind, source, target)
            if kind == "proc" or (kind == "tmpfs" and "mode=0555" in option):
                sealed += ["--remount-ro", target]
        wrap += [*sealed, "--chdir", "/", "--", *(argv or ["/usr/bin/true"])]
        return enter(self._python, "exec", wrap, cgroups=cgroups, network=network)

    def _mount(self, kind: str, source: str, target: str) -> list[str]:
        if kind == "link":
            return ["--symlink", source, target]
        if kind in ("tmpfs", "proc", "dev"):
            return [f"--{kind}", target]
        return [{"ro": "--ro-bind", "rw": "--bind", "device": "--dev-bind"}[kind], source, target]


class Plain:
    """No isolation: a process tree that ends together. A command sees whatever its user sees."""

    kind: Kind = "none"

    def __init__(self, *, python: str = sys.executable) -> None:
        self._python = python

    def command(
        self, argv: Sequence[str], *, view: View, cgroups: Sequence[str] = (), network: Network | None = None
    ) -> list[str]:
        return enter(self._python, "plain", argv, cgroups=cgroups, network=network)


def enter(
    python: str, mode: str, argv: Sequence[str], *, cgroups: Sequence[str] = (), network: Network | None = None, **extra: object
) -> list[str]:
    """Returns the launcher's command line; this same process must start it."""
    plan = {
        "mode": mode, "argv": list(argv), "cwd": "/", "cgroups": list(cgroups), "parent": os.getpid(),
        "filter": syscalls.program().hex(), "network": network, **extra,
    }  # fmt: skip
    return [python, "-I", "-S", str(ENTER), json.dumps(plan)]


def reveal(python: str, *, shown: Mapping[str, Path], launcher: int, kind: str, read_only: bool = False) -> list[str]:
    """Returns the command line that shows directories, by target, to a running node; `kind` is the node's isolation."""
    levels = CELL_LEVELS if kind == "namespaces" else 2
    pairs = [each for target, source in shown.items() for each in (str(source), target)]
    how = "read-only" if read_only else "read-write"
    return [python, "-I", "-S", str(REVEAL), str(launcher), str(levels), how, *pairs]


def without_links(python: str, *, targets: Sequence[str], launcher: int) -> list[str]:
    """Returns the command line that has the node host, and all that is beside it, follow no links in those mounts. For a node in
    namespaces."""
    return [python, "-I", "-S", str(REVEAL), str(launcher), str(CELL_LEVELS), "without-links", *targets]


def environment(instance_id: str, *, node_dir: Path, tmp: str, source: Mapping[str, str]) -> dict[str, str]:
    """Returns the whole environment of a node's first process: it inherits only the language and the time zone."""
    kept = {key: value for key, value in source.items() if key in ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")}
    return {
        "LANG": "C.UTF-8",
        **kept,
        MARKER: instance_id,
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(node_dir / "home"),
        "USER": "spark",
        "LOGNAME": "spark",
        "SHELL": "/bin/sh",
        "TMPDIR": tmp,
        "PYTHONUNBUFFERED": "1",
    }


def choose(mode: Mode, isolation: Isolation, *, python: str = sys.executable) -> Sandbox:
    """Returns the implementation for the result of `probe`. The caller must check `required`."""
    if mode != "off" and isolation.kind == "bubblewrap":
        return Bubblewrap(bwrap=shutil.which("bwrap") or "bwrap", python=python)
    if mode != "off" and isolation.kind == "namespaces":
        return Namespaces(python=python)
    return Plain(python=python)


def probe(*, mode: Mode = "auto", python: str = sys.executable) -> Isolation:
    """Tries what the host allows, best first: only namespaces that we make ourselves support cells for kernels. Takes about
    0.1 s. Never raises."""
    if mode == "off":
        return Isolation("none", "isolation is turned off in the settings")
    reasons = []
    candidates: list[Sandbox] = [Namespaces(python=python)]
    if bwrap := shutil.which("bwrap"):
        candidates.append(Bubblewrap(bwrap=bwrap, python=python))
    for candidate in candidates:
        reason = _try(candidate)
        if not reason:
            return Isolation(candidate.kind)
        reasons.append(f"{candidate.kind}: {reason}")
    return Isolation("none", f"{'; '.join(reasons)}. {_remedy()}")


def _try(sandbox: Sandbox) -> str:
    """Returns why the sandbox does not work here, or "" if it does."""
    try:
        result = subprocess.run(
            sandbox.command([], view=View()), env={}, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if result.returncode == 0:
        return ""
    lines = result.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("sandbox: ")[:300] if lines else f"the launcher ended with code {result.returncode}"


def _remedy() -> str:
    """Returns what to do on this machine, judging by the settings known to forbid namespaces."""
    checks = (
        ("/proc/sys/user/max_user_namespaces", "0", "Set user.max_user_namespaces above 0 with sysctl."),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "Set kernel.unprivileged_userns_clone to 1 with sysctl."),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
            "Install bubblewrap, or set kernel.apparmor_restrict_unprivileged_userns to 0 with sysctl.",
        ),
    )  # fmt: skip
    for path, value, remedy in checks:
        try:
            if Path(path).read_text().strip() == value:
                return remedy
        except OSError:
            continue
    return "In a container, allow namespaces (Docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined)."
