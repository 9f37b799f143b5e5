"""An agent's configuration: one JSON file in its instance's directory, mode 0600."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from brickyard.domain.node import ServerAddress
from brickyard.logs.credentials import MachineCredentials
from brickyard.machine.pressure import DBFS_FULL


class Tree(NamedTuple):
    """Files of the workspace that every node sees: where they are, where nodes see them, and the variable that names the place
    for code that runs with or without isolation."""

    source: str
    target: str
    variable: str


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All paths are absolute. `agent_token` identifies the agent to the server, `server_token` the server to the agent."""

    instance_id: str
    agent_token: str
    server_token: str
    server_url: str
    server_file: str = ""  # server.json of the server that launched the agent, if on the same machine: see `servers.py`
    servers: tuple[ServerAddress, ...] = ()  # all servers of the workspace at launch
    encrypted: bool = False  # servers are on other machines: the agent serves TLS, and trusts `server_ca` alone
    server_ca: str = ""  # PEM; empty: what the machine trusts
    instance_dir: str
    data_dir: str = ""  # the server's data directory; hidden from the node
    storage_dir: str = ""  # hidden from the node except for the node's own directories
    cache_dir: str
    logs_dir: str
    dbfs_dir: str = ""  # the workspace's files, see `trees`
    volumes_dir: str = ""
    workspace_dir: str = ""
    clusters_dir: str = ""  # contains one directory per cluster, shared by all nodes of the cluster
    workspaces_dir: str = ""  # the same for the clusters' workspace directories, each of which is `current` in there
    metastore_dir: str = ""  # the workspace's metastore, hidden from the node
    node_code_dir: str  # runtime/node: start.py and everything else that runs on a node
    python: str = sys.executable  # runs `-m brickyard.runtime` and the launcher
    host: str = "127.0.0.1"  # the agent's address, and the node's if it shares the machine's network
    private_host: str = ""  # an address of the machine that no other machine reaches, for the node's ports; empty: `host`
    network: Literal["isolated", "shared"] = "shared"
    network_reason: str = ""  # why the network is shared
    network_required: bool = False  # refuse to start a node on a shared network
    address: str = ""  # the node's address, if it has its own network
    ways_dir: str = ""  # directory of the sockets that lead into that network
    internet: bool = True
    network_allow: tuple[str, ...] = ()
    isolation: Literal["auto", "required", "off"] = "auto"
    log_format: Literal["console", "json"] = "console"  # of the agent's own log
    orphan_grace_s: float = 600.0
    notice_s: float = 0.0  # for so long after SIGTERM, a worker may hand over what it has to others
    log_delivery_s: float = 300.0  # between two deliveries of logs
    cores: float = 1.0
    memory_mb: int = 4096
    gpus: tuple[int, ...] = ()  # numbers of their device nodes
    gpu_uuids: tuple[str, ...] = ()  # the same GPUs, as CUDA and NVML name them
    gpu_file: str = ""  # stands in for NVML: see `gpus.opened`
    init_script_timeout_s: float = 600.0  # for each init script
    memory_guard_share: float = 0.5  # of its share of the machine's memory; a node that takes less is not ended for others
    min_free_disk: int = 1 << 30  # bytes: when less is free on the disk, the node that uses the most is ended
    node_disk: int = 0  # bytes that the node's files may use; 0: unlimited
    machine_credentials: MachineCredentials = MachineCredentials()
    train_runtimes: bool = False  # what installs a runtime trains it, too: nothing else on this machine does
    environments: dict[str, str] = {}  # runtime key -> environment: finds installed runtimes without starting the installer

    @property
    def directory(self) -> Path:
        return Path(self.instance_dir)

    @property
    def node_host(self) -> str:
        """The address at which the cluster's other nodes reach this one."""
        return self.address or self.host

    @property
    def ports_host(self) -> str:
        """The address that the node's ports bind to, except those of its cluster."""
        return self.address or self.private_host or self.host

    @property
    def node_dir(self) -> Path:
        """The directory for everything that the node may write."""
        return self.directory / "node"

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The workspace's files, as far as this instance has them."""
        trees = (
            Tree(self.dbfs_dir, "/dbfs", "DBFS_ROOT"),
            Tree(self.volumes_dir, "/Volumes", "VOLUMES_ROOT"),
            Tree(self.workspace_dir, "/Workspace", "WORKSPACE_ROOT"),
        )
        return tuple(tree for tree in trees if tree.source)

    @property
    def dbfs_full(self) -> Path:
        """A file of the storage that exists while the workspace's files exceed their limit. Nodes see its directory."""
        return self.directory.parent.parent / DBFS_FULL

    @property
    def python_dir(self) -> Path:
        """The node's own Python environment (`environment.py`)."""
        return self.node_dir / "python"

    @property
    def databricks(self) -> dict[Path, str]:
        """Directories of the node for init scripts, and where it sees them: JARs for Spark's class path, and the driver's
        settings."""
        return {self.node_dir / f"databricks/{name}": f"/databricks/{name}" for name in ("jars", "driver/conf")}

    @property
    def libraries_dir(self) -> Path:
        """The cluster's libraries on this node. Its processes can read it, and only the agent writes to it."""
        return self.directory / "libraries"

    @property
    def log_roots(self) -> dict[str, Path]:
        """The directories in which logs are delivered, by the kind of place."""
        kinds = {"dbfs": self.dbfs_dir, "volumes": self.volumes_dir}
        return {kind: Path(place) for kind, place in kinds.items() if place}

    @property
    def has_metastore(self) -> bool:
        """Whether the node's driver can use the workspace's metastore, whose tables are among the workspace's files."""
        return bool(self.metastore_dir and self.dbfs_dir)

    def cluster_dir(self, cluster_id: str) -> Path | None:
        """The directory that all nodes of the cluster share, or None if there is no cluster or nothing is shared."""
        return Path(self.clusters_dir, Path(cluster_id).name) if self.clusters_dir and cluster_id else None

    def workspace_of(self, cluster_id: str) -> Path | None:
        """The cluster's workspace directory, or None as above."""
        return Path(self.workspaces_dir, Path(cluster_id).name, "current") if self.workspaces_dir and cluster_id else None

    @property
    def workspace_link(self) -> Path:
        """Without isolation: leads to the workspace directory of the cluster that has the node."""
        return self.node_dir / "workspace"


_decode_agent_config = msgspec.json.Decoder(AgentConfig).decode


class ConfigError(Exception):
    """The file is unusable; the message says why."""


def load(path: Path) -> AgentConfig:
    """Reads the configuration. Raises ConfigError."""
    try:
        return _decode_agent_config(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path} is not the configuration of an agent: {error}") from error
