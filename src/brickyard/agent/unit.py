"""What an engine (Ray, Kubernetes, Slurm) runs for an instance: `python -m brickyard.agent --unit FILE`.

The document comes from the server (`providers/engines/units.py`), which does not know the machine that the engine will choose.
So places on that machine are filled in here, in the process that then becomes the agent. Its directory is removed at the end; a
process that was killed leaves it behind, and the next instance on the machine removes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

import brickyard
from brickyard.agent.config import AgentConfig
from brickyard.machine import files, linux, locks
from brickyard.machine.gpus import Gpu, opened
from brickyard.storage import newnames
from brickyard.storage.directory import Storage

ADDRESS_VARIABLE = "BRICKYARD_NODE_ADDRESS"
TOKENS_VARIABLE = "BRICKYARD_UNIT_TOKENS"  # JSON of Tokens, where the document has none
LEFT_S = 60.0  # a lock file that nobody has taken for so long belongs to an agent that was killed
CONFIG_EXIT = 78  # EX_CONFIG: this machine cannot run an agent until somebody changes it
_CODE = Path(brickyard.__file__).parent
_SECRET = ("BRICKYARD_", "DATABRICKS_", "RAY_", "KUBERNETES_", "SLURM_")  # nothing on the node may see the engine's variables


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """An instance's agent before its machine is known. `config` has no places of the machine yet."""

    version: str  # of Brickyard, on the server
    workspace_id: str  # a machine may have instances of several workspaces
    machine_dir: str  # on the machine: for instances and what they share; only our user may use it
    cache_dir: str = ""  # on the machine: runtimes, shared by its instances; empty: in `machine_dir`
    storage_dir: str  # where the machine mounts the workspace's storage
    host: str = ""  # the machine's address; empty: the one from which it reaches the server
    gpus: int = 0  # how many the engine assigns; CUDA_VISIBLE_DEVICES names them
    config: AgentConfig


_decode_unit = msgspec.json.Decoder(Unit).decode


class Tokens(msgspec.Struct, frozen=True):
    """What is secret in a document, where that can be read on the machine."""

    agent_token: str
    server_token: str


_decode_tokens = msgspec.json.Decoder(Tokens).decode


def apart(document: bytes) -> tuple[bytes, bytes]:
    """The document without its tokens, and these."""
    unit = _decode_unit(document)
    tokens = Tokens(unit.config.agent_token, unit.config.server_token)
    config = msgspec.structs.replace(unit.config, agent_token="", server_token="")
    return msgspec.json.encode(msgspec.structs.replace(unit, config=config)), msgspec.json.encode(tokens)


class UnitError(Exception):
    """This machine cannot run the agent. The message says why and what to do there."""


def read(path: Path) -> Unit:
    """Reads the document ("-": from stdin), and compares versions before anything else. Raises UnitError."""
    try:
        data = _given() if path == Path("-") else path.read_bytes()
        version = _decode_versioned(data).version
        if version != brickyard.__version__:
            raise UnitError(
                f"Brickyard {brickyard.__version__} is installed on {socket.gethostname()} for {sys.executable}, and the server "
                f"has {version}. Install Brickyard {version} there, from a wheel or a clone of that version."
            )
        unit = _decode_unit(data)
        if given := os.environ.get(TOKENS_VARIABLE):
            tokens = _decode_tokens(given)
            unit = msgspec.structs.replace(unit, config=msgspec.structs.replace(unit.config, **msgspec.structs.asdict(tokens)))
        return unit
    except OSError as error:
        raise UnitError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise UnitError(f"{path} does not describe an instance: {error}") from error


def _given() -> bytes:
    """What stdin has. Afterwards it has nothing: the file behind it, which may be removed already, holds tokens."""
    data = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    return data


class _Versioned(msgspec.Struct):
    version: str


_decode_versioned = msgspec.json.Decoder(_Versioned).decode


def place(unit: Unit) -> AgentConfig:
    """Makes the instance's directory, and returns the configuration with every place filled in. Raises UnitError."""
    machine = Path(unit.machine_dir)
    hidden = machine / "instances"  # from all nodes, also those of other workspaces
    instances = hidden / unit.workspace_id
    try:
        for directory in (machine, hidden, instances):
            _private(directory)
        _sweep(instances)
        _check_storage(unit)
        gpus = assigned(unit.gpus, os.environ.get("CUDA_VISIBLE_DEVICES", ""), opened(unit.config.gpu_file).found())
        config = msgspec.structs.replace(
            unit.config,
            instance_dir=str(instances / unit.config.instance_id),
            data_dir=str(hidden),
            cache_dir=unit.cache_dir or str(machine / "cache"),
            node_code_dir=str(_CODE / "runtime" / "node"),
            python=sys.executable,
            host=unit.host or _engine_address() or own_address(unit.config.server_url),
            private_host=private_address(unit.config.instance_id) if unit.config.encrypted else "",
            gpus=tuple(each.number for each in gpus),
            gpu_uuids=tuple(each.uuid for each in gpus),
        )
        config.directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UnitError(f"cannot use {error.filename or machine} on {socket.gethostname()}: {error.strerror}") from error
    return config


def hide() -> None:
    """From now on, other processes of our user cannot read the tokens here: where nothing keeps users' code apart from the agent,
    this does. To be called before any of that code can run."""
    if sys.platform == "linux":
        linux.hide_memory()


def run(path: Path, *, with_parent: bool = False) -> int:
    """Becomes the instance's agent, and removes its directory at the end. `with_parent`: receives SIGTERM when the process that
    started this one ends. Returns the exit code: CONFIG_EXIT, with the reason on stderr, if this machine cannot run it."""
    from brickyard.agent.run import run as run_agent  # noqa: PLC0415 - the version is checked before the agent's code is loaded

    try:
        if with_parent:
            _end_with_parent()
        config = place(read(path))
    except UnitError as error:
        sys.stderr.write(f"{error}\n")
        return CONFIG_EXIT
    for name in [name for name in os.environ if name.startswith(_SECRET)]:
        del os.environ[name]
    try:
        return run_agent(config, own_session=False)  # engines end what is in their unit's session or process group
    finally:
        if not locks.is_taken(config.directory / "agent.lock"):  # by another agent of this instance, for which we made room
            with contextlib.suppress(OSError):  # the next agent on this machine removes what is left
                files.remove_tree(config.directory)


def assigned(count: int, visible: str, found: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs that the engine has assigned. `visible`: CUDA_VISIBLE_DEVICES, positions in the driver's list or UUIDs; empty if
    only assigned GPUs are visible at all (containers). Raises UnitError if they are not as many as `count`."""
    if not count:
        return ()
    names = [name.strip() for name in visible.split(",") if name.strip()]
    by_name = {key: gpu for index, gpu in enumerate(found) for key in (str(index), gpu.uuid)}
    gpus = tuple(by_name[name] for name in names if name in by_name) if names else tuple(found)
    if len(gpus) != count:
        raise UnitError(
            f"{count} GPU{'s' if count > 1 else ''} should be assigned on {socket.gethostname()}; CUDA_VISIBLE_DEVICES is "
            f"{visible!r}, and the driver finds {len(found)} there. Compare nvidia-smi with what the engine was told."
        )
    return gpus


def own_address(server_url: str) -> str:
    """The address of this machine from which it reaches the server. Raises OSError. Nothing is sent."""
    parts = urlsplit(server_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    for family, kind, protocol, _, address in socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM):
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    raise OSError(0, f"no route to {parts.hostname}")


def _engine_address() -> str:
    """The address by which the engine knows this machine, where what started us was told to find it; "" elsewhere."""
    name = os.environ.get(ADDRESS_VARIABLE, "")
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM) if name else ()
    # A name may have both kinds, and Spark's nodes must agree: IPv4, as long as machines have it.
    return next((str(each[4][0]) for each in sorted(found, key=lambda each: each[0] != socket.AF_INET)), "")


def private_address(instance_id: str) -> str:
    """A loopback address for an instance's own ports: another one for each, so that instances of a machine do not meet there."""
    digest = hashlib.sha256(instance_id.encode()).digest()
    address = f"127.{64 + digest[0] % 64}.{digest[1]}.{1 + digest[2] % 254}"
    try:
        with socket.socket() as probe:
            probe.bind((address, 0))
    except OSError:  # this system has only one
        return "127.0.0.1"
    return address


def _end_with_parent() -> None:
    parent = os.getppid()
    if sys.platform == "linux":
        try:
            linux.die_with_parent(parent, signal.SIGTERM)
        except linux.SetupError as error:
            raise UnitError(str(error)) from error


def _private(directory: Path) -> None:
    """Makes a directory that only we can use. Others can write to its parent (/var/tmp), so it must be ours already, or new."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700, parents=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise UnitError(f"{directory} on {socket.gethostname()} is not a directory of user {os.geteuid()}. Remove it.")
    directory.chmod(0o700)


def _sweep(instances: Path) -> None:
    """Removes what killed agents have left on this machine. A lock file is there before its agent has taken it: a new one says
    nothing."""
    for directory in instances.iterdir():
        lock = directory / "agent.lock"
        with contextlib.suppress(OSError):  # without a lock file, its agent is about to start
            if time.time() - lock.stat().st_mtime > LEFT_S and not locks.is_taken(lock):
                files.remove_tree(directory)


def _check_storage(unit: Unit) -> None:
    """The machine must mount the storage of this workspace, where the settings say."""
    path = Path(unit.storage_dir) / "workspace.id"
    try:
        found = path.read_text().strip()
    except (OSError, ValueError):
        found = ""
    if found != unit.workspace_id:
        why = f"belongs to workspace {found}" if found else "is not mounted there, or cannot be read"
        raise UnitError(
            f"the storage of workspace {unit.workspace_id} must be at {unit.storage_dir} on every machine with nodes; on "
            f"{socket.gethostname()}, that directory {why}."
        )
    try:
        storage = Storage(path.parent)
        lost = newnames.trouble((storage.metastore, storage.clusters, *storage.trees))
    except OSError as error:
        lost = f"{unit.storage_dir} cannot be written ({error.strerror})"
    if lost:
        raise UnitError(f"cannot use the storage of workspace {unit.workspace_id} on {socket.gethostname()}: {lost}.")
