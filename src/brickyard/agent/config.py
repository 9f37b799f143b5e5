"""What an agent is told when it is launched: one JSON file in its instance's directory, mode 0600."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import msgspec

from brickyard.domain.node import ServerAddress


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All paths are absolute. `agent_token` proves us to the server, `server_token` proves the server to us."""

    instance_id: str
    agent_token: str
    server_token: str
    server_url: str
    server_file: str = ""  # server.json of the server that launched it, on the server's own machine: see `servers.py`
    servers: tuple[ServerAddress, ...] = ()  # all of the workspace, when it was launched
    instance_dir: str
    data_dir: str = ""  # the server's; hidden from the node
    storage_dir: str = ""  # likewise, all but its own directories
    cache_dir: str
    logs_dir: str
    dbfs_dir: str = ""
    clusters_dir: str = ""  # with a directory for every cluster, which all of its nodes share
    node_code_dir: str  # runtime/node: start.py, and all that it runs on a node
    python: str = sys.executable  # runs `-m brickyard.runtime` and the launcher
    host: str = "127.0.0.1"  # our own address, and the node's where it shares the machine's network
    network: Literal["isolated", "shared"] = "shared"
    network_reason: str = ""  # why it is shared
    network_required: bool = False  # start no node where it is shared
    address: str = ""  # the node's, in a network of its own
    ways_dir: str = ""  # where sockets lead into that network
    internet: bool = True
    network_allow: tuple[str, ...] = ()
    isolation: Literal["auto", "required", "off"] = "auto"
    orphan_grace_s: float = 600.0
    cores: float = 1.0
    memory_mb: int = 4096
    gpus: tuple[int, ...] = ()  # device numbers
    min_free_disk: int = 1 << 30  # bytes: with less free on the disk, the node that takes the most is ended
    node_disk: int = 0  # bytes that the node's files may take; 0: as many as there are
    environments: dict[str, str] = {}  # runtime key -> environment: installed ones are found without starting the installer

    @property
    def directory(self) -> Path:
        return Path(self.instance_dir)

    @property
    def node_host(self) -> str:
        """The address that the node's ports are bound to."""
        return self.address or self.host

    @property
    def node_dir(self) -> Path:
        """All that the node may write."""
        return self.directory / "node"

    def cluster_dir(self, cluster_id: str) -> Path | None:
        """What all nodes of the cluster share; None: nothing, or there is no cluster."""
        return Path(self.clusters_dir, Path(cluster_id).name) if self.clusters_dir and cluster_id else None


class ConfigError(Exception):
    """The file cannot be used; the message says why."""


def load(path: Path) -> AgentConfig:
    """Read the configuration. Raises ConfigError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=AgentConfig)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path} is not the configuration of an agent: {error}") from error
