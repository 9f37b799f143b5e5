"""`brickyard doctor`: checks what this machine has, and says what to do about what is missing."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from brickyard.cli.options import json_option, place, serving_too, settings
from brickyard.config.settings import Settings
from brickyard.machine import limits, measure
from brickyard.machine.disk import Amount, Lack, text
from brickyard.machine.packageindex import uv_environment
from brickyard.sandbox.probe import Allowed, allowed_here
from brickyard.server.datadir import Workspace
from brickyard.server.preflight import ServerError, listen
from brickyard.storage import newnames

MUCH = 8  # above this memory_overcommit, more nodes may use the whole machine at once than any machine can take
ASKED_FOR = "pyspark"  # every runtime needs this package from the index
INDEX_LIMIT_S = 60.0


class Finding(NamedTuple):
    """One check: "ok", "note" (works without it) or "broken", and a sentence that says what to do."""

    name: str
    state: str
    text: str


@click.command("doctor")
@place
@serving_too
@json_option
def command(as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Check Python, Java, disk, port, package index, GPU, isolation, network and limits.

    Exit code 1 when something needed is broken.

    The options are those of `brickyard up`: what is checked is what that would start.
    """
    chosen = settings(config_file, **options)
    allowed = allowed_here()
    findings = [
        _python(),
        _java(),
        _disk("data directory", chosen.data_dir, 1_000, keep=_floor(chosen)),
        *([] if chosen.storage_dir == chosen.data_dir else [_disk("storage", chosen.storage_dir, 1_000, keep=_floor(chosen))]),
        *_names(chosen.storage_dir),
        _disk("cache directory", chosen.cache_dir, 1_500),
        _port(chosen),
        _connect_port(chosen),
        _index(),
        _gpu(),
        _isolation(chosen, allowed),
        _network(chosen, allowed),
        _cgroups(allowed),
        _memory(chosen),
        *_limits(chosen),
    ]
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.state:7} {finding.name:16} {finding.text}")
    sys.exit(any(finding.state == "broken" for finding in findings))


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")


def _java() -> Finding:
    from brickyard.runtime import catalogue, java  # noqa: PLC0415 - with this command only

    chosen = os.environ.get("BRICKYARD_JAVA_HOME")
    if chosen and java.probe(Path(chosen)) is None:
        return Finding(
            "Java", "broken", f"BRICKYARD_JAVA_HOME={chosen} has no bin/java that runs. Correct it, or unset it to use another."
        )
    wanted = catalogue.default().java
    named, seen = java.find()
    found = next(java.candidates(wanted, chosen=named, seen=seen))
    if isinstance(found, java.Java):
        return Finding("Java", "ok", f"{found.version} at {found.home}")
    return Finding("Java", "ok", f"none here of version {' or '.join(map(str, wanted))}; each runtime brings one")


def _disk(name: str, path: Path, needed_mb: int, *, keep: int = 0) -> Finding:
    """`keep`: the number of bytes that the server tries to keep free."""
    there = next(each for each in (path, *path.parents) if _exists(each))
    if not there.is_dir():
        return Finding(name, "broken", f"{there} is not a directory. Remove it, or choose another {name}.")
    disk = measure.disk(there)
    needed, floor = Amount(needed_mb * 2**20), disk.floor(keep)
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(name, "broken", f"{path} cannot be written. Fix its owner, or choose another.")
    if (lack := disk.lack(needed)) is not None:
        return Finding(
            name, "broken", f"{path}: {disk.left(lack)}; {needed.text(lack)} are needed. Free space, or choose another."
        )
    if (lack := disk.lack(floor + floor)) is not None:
        return Finding(
            name, "note", f"{path}: {disk.left(lack)}; with less than {floor.text(lack)}, the node that uses the most is ended. "
            "Free space, or choose another.",
        )  # fmt: skip
    return Finding(name, "ok", f"{path}, {disk.left(Lack.SIZE)}")


def _names(storage: Path) -> list[Finding]:
    """Whether commits to tables are safe there. What cannot be tried yet is tried at the start."""
    if not storage.is_dir() or not os.access(storage, os.W_OK | os.X_OK):
        return []
    try:
        why = newnames.trouble([storage])
    except OSError:
        return []
    name = "file system"
    if why:
        return [Finding(name, "broken", f"{why}.")]
    kind = newnames.filesystem_of(storage.resolve(), newnames.MOUNTS.read_text())
    return [Finding(name, "ok", f"{kind or 'unknown'} at {storage}: a new name goes to one writer")]


def _floor(chosen: Settings) -> int:
    return int(chosen.min_free_disk_gb * 2**30)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a parent directory that we may not search
        return False


def _port(chosen: Settings) -> Finding:
    running = Workspace(chosen.data_dir).running()
    if running:
        return Finding("port", "ok", f"a server is running: process {running.pid} at {running.url}")
    try:
        listen(chosen.host, chosen.port).close()
    except ServerError as error:
        return Finding("port", "broken", str(error))
    return Finding("port", "ok", f"{chosen.host}:{chosen.port} is free" if chosen.port else "the server will choose a free one")


def _connect_port(chosen: Settings) -> Finding:
    from brickyard.gateway.entrance import DEFAULT_PORT  # noqa: PLC0415 - loads gRPC; with this command only

    name = "Spark Connect"
    if chosen.connect_port == 0:
        return Finding(name, "ok", "switched off")
    if Workspace(chosen.data_dir).running():
        return Finding(name, "ok", "the running server has its port, or has reported why not")
    port = chosen.connect_port or DEFAULT_PORT
    try:
        listen(chosen.host, port).close()
    except ServerError as error:
        remedy = str(error).replace("--port (0 finds a free one)", "--connect-port (0 is none)")
        return Finding(name, "broken" if chosen.connect_port else "note", remedy)
    return Finding(name, "ok", f"{chosen.host}:{port} is free")


def _index() -> Finding:
    from brickyard.runtime.python import PythonMissing, uv_binary  # noqa: PLC0415 - with this command only

    try:
        uv = uv_binary()
    except PythonMissing as error:
        return Finding("package index", "broken", str(error))
    try:
        said = subprocess.run(
            [uv, "pip", "compile", "--quiet", "--no-deps", "--no-header", "--refresh-package", ASKED_FOR, "-"],
            input=ASKED_FOR, text=True, capture_output=True, check=False, timeout=INDEX_LIMIT_S,
            env={"UV_HTTP_RETRIES": "1", **os.environ, **uv_environment(os.environ)},
        )  # fmt: skip
        why = "" if said.returncode == 0 else (said.stderr.strip().splitlines() or ["uv says nothing"])[-1].strip(" ╰─▶├│")
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if not why:
        return Finding("package index", "ok", "reached; runtimes can be installed")
    return Finding(
        "package index",
        "note",
        f"not reached, so no new runtimes can be installed: {why[:200].rstrip('.')}. Check the network, and pip's or uv's index.",
    )


def _gpu() -> Finding:
    from brickyard.machine.gpus import opened  # noqa: PLC0415 - with this command only

    if found := opened().found():
        return Finding("GPU", "ok", f"{len(found)} x {found[0].model}; GPU node types are offered")
    if devices := sorted(each.name for each in Path("/dev").glob("nvidia[0-9]*")):
        return Finding(
            "GPU",
            "note",
            f"/dev has {', '.join(devices)}, but NVML finds no GPU, so GPU node types are not offered. Try nvidia-smi: if it "
            "fails too, install the driver that suits the kernel; in a container, pass the driver's libraries in.",
        )
    return Finding("GPU", "ok", "none on this machine; GPU node types of it are not offered")


def _isolation(chosen: Settings, allowed: Allowed) -> Finding:
    if chosen.isolation == "off":
        return Finding("isolation", "note", "switched off: code on clusters can read whatever this user can")
    if allowed.isolation != "none":
        return Finding("isolation", "ok", f"clusters run in {allowed.isolation}")
    state = "broken" if chosen.isolation == "required" else "note"
    return Finding(
        "isolation", state, f"clusters are not isolated: {allowed.reason} Allow user namespaces, or install bubblewrap."
    )


def _network(chosen: Settings, allowed: Allowed) -> Finding:
    if chosen.isolation == "off" or chosen.network == "shared":
        return Finding(
            "network", "note", "switched off: clusters reach each other's ports, and this machine's services on loopback"
        )
    if allowed.network == "isolated":
        return Finding("network", "ok", "every cluster has its own network")
    state = "broken" if chosen.network == "isolated" else "note"
    return Finding(
        "network",
        state,
        f"clusters share this machine's network ({allowed.network.removeprefix('shared: ')}) and reach each other's ports and "
        "its services on loopback. Allow user and network namespaces (and the kernel's veth devices).",
    )


def _limits(chosen: Settings) -> list[Finding]:
    limits.raise_files()
    places = (("data directory", chosen.data_dir), ("cache directory", chosen.cache_dir))
    found = [limits.files(), limits.processes(), *(limits.inodes(name, path) for name, path in places)]
    return [Finding(*each) for each in found if each is not None]


def _cgroups(allowed: Allowed) -> Finding:
    if allowed.limits.startswith("watched"):
        why = allowed.limits.removeprefix("watched: ").rstrip(".")
        return Finding(
            "control groups",
            "note",
            f"cannot be written: {why}. Each agent looks at its node's memory and processes once a second instead, which a fast "
            "program can outrun. Start the server as root; or, where systemd runs, allow nodes a scope: loginctl enable-linger.",
        )
    return Finding("control groups", "ok", "can be written: nodes have memory and process limits")


def _memory(chosen: Settings) -> Finding:
    found = measure.machine_memory()
    if found is None:
        return Finding("memory", "note", "this system does not report how much is left: nodes are not ended when it runs out")
    has = f"{text(found.total)}, {text(found.available)} available; nodes are promised {chosen.memory_overcommit:g} times as much"
    if found.available < 2 * found.floor:
        return Finding(
            "memory", "note", f"{has}. With less than {text(found.floor)} available, the largest node is ended: free some memory."
        )
    if chosen.memory_overcommit > MUCH:
        return Finding(
            "memory", "note", f"{has}. When nodes use what they are promised, the largest is ended: lower memory_overcommit "
            "if that happens.",
        )  # fmt: skip
    return Finding("memory", "ok", f"{has}; with less than {text(found.floor)} available, the largest node is ended")
