"""What a node's processes see of the machine: `View` describes it, `mounts` and `cells` turn it into lists for a launcher."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

Mount = tuple[str, str, str, str]  # kind (ro, rw, link, tmpfs, proc, dev, device), source, target, option of a tmpfs
CLUSTER = "/cluster"  # seen by all nodes of a cluster, and by no others
WORKSPACE = "/workspace"  # the same; it stays when the cluster stops, and users write it
WORKER_PYTHON = "/databricks/spark-python"  # what Spark starts for Python workers where users are kept apart
PROGRAMS = "/databricks/bin"  # what is first on the PATH
UID = 1000  # inside, even if we are root outside: some programs trust root by its number
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - the node's own directory, inside
_PYTHON = ("/databricks/python", "/databricks/python3")  # where Databricks has it, and many scripts look for it
_EMPTY = "mode=0555,size=1m"  # for a tmpfs that hides what it covers
_TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# The parts of /etc that programs need. Never all of it: it holds keys and other programs' secrets.
_ETC = (
    "alternatives", "ca-certificates", "crypto-policies", "fonts", "gai.conf", "host.conf", "java", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "locale.alias", "localtime", "mime.types", "nsswitch.conf", "os-release", "debian_version",
    "pki/ca-trust/extracted", "pki/java", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "protocols", "R/Makeconf",
    "R/Renviron", "R/Rprofile.site", "R/ldpaths", "R/repositories", "resolv.conf", "services", "ssl/certs", "ssl/openssl.cnf",
    "timezone",
)  # fmt: skip
_ETC_GLOBS = ("java-*", "jvm-*")  # where Debian and Fedora keep a JDK's own configuration
# Parts of a fresh /proc that belong to the machine. If our user is root outside, that uid alone allows writing to them.
_PROC_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_PROC_HIDDEN = ("kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecount", "kpageflags", "sched_debug", "timer_list")
_HARDWARE = ("/sys/devices/system/cpu", "/sys/devices/system/node")
_GPU_HARDWARE = ("/sys/bus/pci", "/sys/class", "/sys/devices", "/sys/module")
_GPU_SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a node's processes may see of the machine, besides the operating system's programs."""

    hostname: str = "node"
    etc: str = ""  # directory with our own passwd, group, hosts, hostname (see `write_etc`)
    read_only: tuple[str, ...] = ()  # runtime, interpreter, Java, our code for the node: at their own paths
    unreadable: tuple[tuple[str, str], ...] = ()  # (copy made by `write_unreadable`, program in whose place it appears)
    interpreter: str = ""  # a Python whose environment is in `read_only`: the links to its base are followed
    node_dir: str = ""  # read-write, at its own path; its tmp/ is also /tmp
    environment: str = ""  # the node's Python environment, below node_dir: a mount of its own, read-only for kernels in cells
    worker_python: str = ""  # the program at WORKER_PYTHON, made by `write_worker_python`
    programs: str = ""  # the directory at PROGRAMS, made by `write_programs`
    # Read-write, but for kernels in cells read-only: a directory below node_dir, and where it appears.
    databricks: tuple[tuple[str, str], ...] = ()
    trees: tuple[tuple[str, str], ...] = ()  # read-write: a directory, and where it appears
    cluster_dir: str = ""  # read-write, at /cluster; "": an empty directory, for `reveal.py`
    workspace_dir: str = ""  # the same, at /workspace
    hidden: tuple[str, ...] = ()  # never visible, even below something visible
    gpus: tuple[int, ...] = ()
    shared_memory_mb: int = 1024
    processes: int = 0  # how many there may be with their threads, where the kernel counts them for the node; 0: no limit
    cells: bool = False  # the command is a node host, which may ask for kernels in their own cells (`cells.py`)


def _way_to(python: str) -> Iterator[str]:
    """Yields the paths along the links from an interpreter's path; the last is the program."""
    path = Path(python)
    for _ in range(10):
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield str(path)


def _interpreter(view: View) -> Iterator[Mount]:
    """Yields what leads from a virtual environment's python to its base: the links, which may lie anywhere (~/.local/bin),
    without their neighbours, and the base's prefix under the alias that the last link uses."""
    way = list(_way_to(view.interpreter)) if view.interpreter else []
    aliases = [prefix for path in way[-1:] if (prefix := str(Path(path).parent.parent)) not in ("/", "/usr")]
    yield from (("ro", os.path.realpath(alias), alias, "") for alias in aliases)
    for path, to in pairwise(way):
        if not any(_is_below(path, top) for top in ("/usr", *view.read_only, *aliases)):
            yield ("link", to, path, "")


def inner_uid() -> int:
    """Returns the user (and group) id inside."""
    return os.getuid() or UID


def write_etc(directory: Path, *, hostname: str, host: str, home: str) -> None:
    """Writes the node's own files of /etc. `directory` lies outside of what the node may write."""
    directory.mkdir(mode=0o700, exist_ok=True)
    uid = inner_uid()
    try:
        machine = Path("/etc/hosts").read_text(errors="replace")
    except OSError:
        machine = ""
    (directory / "passwd").write_text(f"root:x:0:0::/:/bin/false\nspark:x:{uid}:{uid}::{home}:/bin/sh\n")
    (directory / "group").write_text(f"root:x:0:\nspark:x:{uid}:\n")
    (directory / "hosts").write_text(hosts_text(machine, host=host, hostname=hostname))
    (directory / "hostname").write_text(f"{hostname}\n")


def hosts_text(machine: str, *, host: str, hostname: str) -> str:
    """Returns a node's /etc/hosts: the machine's, but `localhost` is the node itself whatever the machine's says of it. PySpark
    and users' programs rely on that name."""
    lines = ["127.0.0.1 localhost"]
    for line in machine.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if kept := [name for name in names if name != "localhost" or address == "::1"]:
            lines.append(" ".join([address, *kept]))
    return "\n".join([*lines, f"{host} {hostname}", ""])


def write_unreadable(copy: Path, program: Path) -> None:
    """Makes a copy of a program that can be run but not read. The kernel hides the memory, environment and files of a process
    that runs such a program from other processes of the same user."""
    copy.unlink(missing_ok=True)
    shutil.copyfile(program, copy)
    copy.chmod(0o111)


def write_worker_python(program: Path, *, python: str, node_code: str, node_dir: str) -> None:
    """Makes the program that Spark starts for Python workers where users are kept apart."""
    command = shlex.join([python, "-I", "-S", f"{node_code}/pythonworkers/front.py", node_dir])
    program.unlink(missing_ok=True)
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o555)


def write_programs(directory: Path, *, python: str, node_code: str) -> None:
    """Makes the programs that a node has in the place of the machine's."""
    directory.mkdir(mode=0o755, exist_ok=True)
    program = directory / "sudo"
    program.unlink(missing_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.join([python, "-I", "-S", f"{node_code}/programs/sudo.py"])} "$@"\n')
    program.chmod(0o555)


def mounts(view: View) -> list[Mount]:
    """Returns the view as mounts, outer ones first."""
    given = [path for wanted in view.read_only for path in dict.fromkeys((wanted, os.path.realpath(wanted)))]
    shown = [*_system(view), *(("ro", os.path.realpath(path), path, "") for path in dict.fromkeys(given)), *_interpreter(view)]
    shown += _hide(view.hidden, shown)
    shown += [("ro", copy, os.path.realpath(program), "") for copy, program in view.unreadable]
    if view.node_dir:
        shown.append(("rw", os.path.realpath(view.node_dir), view.node_dir, ""))
        temporary = os.path.realpath(Path(view.node_dir, "tmp"))
        shown += [("rw", temporary, target, "") for target in _TEMPORARY]
    if view.environment:
        shown.append(("rw", os.path.realpath(view.environment), view.environment, ""))
        shown += [("link", view.environment, target, "") for target in _PYTHON]
    if view.worker_python:
        shown.append(("ro", os.path.realpath(view.worker_python), WORKER_PYTHON, ""))
    if view.programs:
        shown.append(("ro", os.path.realpath(view.programs), PROGRAMS, ""))
    shown += [("rw", os.path.realpath(source), target, "") for source, target in (*view.databricks, *view.trees)]
    for source, target in ((view.cluster_dir, CLUSTER), (view.workspace_dir, WORKSPACE)):
        if source:
            shown.append(("rw", os.path.realpath(source), target, ""))
        elif view.node_dir:
            shown.append(("tmpfs", "", target, _EMPTY))
    shown.sort(key=lambda mount: mount[2].count("/"))
    return [mount for index, mount in enumerate(shown) if not _repeats(mount, shown[:index])]


def cells(view: View) -> dict[str, object]:
    """Returns what the cells of a node see on top of what the node sees, for the launcher. Outer mounts come first.

    Everything writable is the kernel's own, except the workspace's and the cluster's files. No cell sees the directory that
    contains the kernels' directories.
    """
    shown, node = mounts(view), view.node_dir
    own_proc = [mount for mount in shown if _is_below(mount[2], "/proc")]
    fresh = [mount for mount in shown if mount[0] == "tmpfs" and mount[3] != _EMPTY]
    temporary = [("own", "tmp", target, "") for target in _TEMPORARY]
    own = [("own", name, f"{node}/{name}", "") for name in ("tmp", "home", "work")]
    if view.environment:
        own.append(("keep", "", view.environment, "ro"))
    own += [("keep", "", target, "ro") for _, target in view.databricks]
    directory = f"{node}/kernels"
    return {
        "directory": directory,
        "cwd": f"{node}/work",
        "shared": [CLUSTER, WORKSPACE],
        "host": [*own_proc, ("tmpfs", "", directory, _EMPTY)],
        "kernel": [
            *own_proc, *fresh, ("pts", "", "/dev/pts", ""), *temporary, *_kept(shown, node), ("tmpfs", "", node, _EMPTY), *own
        ],
    }  # fmt: skip


def _kept(shown: Sequence[Mount], node: str) -> Iterator[Mount]:
    """Repeats what the node sees below /tmp (a runtime, an interpreter), for cells where /tmp is another directory."""
    found: list[str] = []
    for kind, source, target, _ in shown:
        below = any(_is_below(target, top) and target != top for top in _TEMPORARY)
        if below and not any(_is_below(target, outer) for outer in (node, *found)):
            found.append(target)
            yield (kind, source, target, "") if kind == "link" else ("keep", "", target, "")


def _repeats(mount: Mount, before: Sequence[Mount]) -> bool:
    """Whether the mount only repeats what the innermost mount around it shows anyway (an interpreter in /usr)."""
    kind, source, target, _ = mount
    around = next((outer for outer in reversed(before) if _is_below(target, outer[2])), None)
    return around is not None and kind == "ro" and around[0] == "ro" and around[1] + target[len(around[2]) :] == source


def _system(view: View) -> Iterator[Mount]:
    yield ("ro", "/usr", "/usr", "")
    for path in _TOP:
        if os.path.islink(path):  # noqa: PTH114 - plain strings throughout
            yield ("link", os.path.realpath(path).lstrip("/"), path, "")
        elif os.path.isdir(path):  # noqa: PTH112 - as above
            yield ("ro", path, path, "")
    if Path("/nix/store").is_dir():
        yield ("ro", "/nix/store", "/nix/store", "")
    yield ("proc", "", "/proc", "")
    for name in _PROC_READ_ONLY:
        if Path("/proc", name).exists():
            yield ("ro", f"/proc/{name}", f"/proc/{name}", "")
    for name in _PROC_HIDDEN:
        if Path("/proc", name).exists():
            yield ("ro", "/dev/null", f"/proc/{name}", "")
    yield ("dev", "", "/dev", "")
    yield ("tmpfs", "", "/dev/shm", f"mode=1777,size={view.shared_memory_mb}m")  # noqa: S108 - a fresh one
    yield ("tmpfs", "", "/run", "mode=0755,size=16m")
    if not view.node_dir:
        yield ("tmpfs", "", "/tmp", "mode=1777,size=16m")  # noqa: S108 - a fresh one
    yield from _configuration(view.etc)
    yield from _devices(view.gpus)


def _configuration(etc: str) -> Iterator[Mount]:
    names = [*_ETC, *(path.name for pattern in _ETC_GLOBS for path in sorted(Path("/etc").glob(pattern)))]
    for name in dict.fromkeys(names):
        path = f"/etc/{name}"
        real = os.path.realpath(path)
        if not os.path.exists(real):  # noqa: PTH110 - as above
            continue
        if os.path.islink(path) and real.startswith("/usr/"):  # noqa: PTH114 - Java reads the time zone from localtime's link
            yield ("link", real, path, "")
        else:
            yield ("ro", real, path, "")
    if etc:
        for name in ("passwd", "group", "hosts", "hostname"):
            yield ("ro", f"{etc}/{name}", f"/etc/{name}", "")


def _devices(gpus: Sequence[int]) -> Iterator[Mount]:
    for path in _GPU_HARDWARE if gpus else _HARDWARE:
        if Path(path).is_dir():
            yield ("ro", path, path, "")
    yield from (("device", device, device, "") for device in device_nodes(gpus))


def device_nodes(gpus: Sequence[int], dev: Path = Path("/dev")) -> list[str]:
    """Returns the device nodes of these GPUs, with those that all GPUs share; none without a GPU."""
    names = (*(f"nvidia{number}" for number in gpus), *_GPU_SHARED) if gpus else ()
    tops = [dev / name for name in names]
    found = [each for top in tops for each in (sorted(top.iterdir()) if top.is_dir() else [top])]
    return [str(each) for each in found if each.exists()]


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _hide(hidden: Sequence[str], shown: Sequence[Mount]) -> Iterator[Mount]:
    """Yields an empty directory over every secret that lies below something visible."""
    for path in hidden:
        real = os.path.realpath(path)
        for kind, source, target, _ in shown:
            if kind == "ro" and _is_below(real, source) and Path(real).is_dir():
                yield ("tmpfs", "", target + real[len(source) :], _EMPTY)
