"""What an agent needs to start on any machine: its configuration, command line and environment.

The machine needs a Python with this package (the server's version) and a directory for agent.json that
nobody else can read, because that file holds the instance's tokens. The agent installs everything else itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from brickyard.agent.config import AgentConfig
from brickyard.config.settings import Settings
from brickyard.domain.runtimes import Runtime
from brickyard.logs.credentials import MachineCredentials
from brickyard.machine import cranrepo, mavenrepo
from brickyard.providers.base import LaunchRequest
from brickyard.runtime import NODE_CODE

CONFIG_FILE = "agent.json"  # in the instance's directory, mode 0600
_SECRET = ("BRICKYARD_", "DATABRICKS_")  # never passed on to agents and what they start, except:
_PASSED_ON = (mavenrepo.VARIABLE, cranrepo.VARIABLE)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent runs: absolute paths on its machine, and the Python there that has this package."""

    instance_dir: Path  # of this instance only, mode 0700
    cache_dir: Path  # runtimes, shared by the machine's instances
    logs_dir: Path  # where nodes' logs are kept
    data_dir: Path | None = None  # the server's, if it is on this machine: hidden from the node
    storage_dir: Path | None = None  # likewise, except for the node's own part
    dbfs_dir: Path | None = None  # the workspace's files, and what a cluster's nodes share: where all machines mount them
    volumes_dir: Path | None = None
    workspace_dir: Path | None = None
    clusters_dir: Path | None = None
    workspaces_dir: Path | None = None
    metastore_dir: Path | None = None  # what Spark knows of tables, for agents alone; without it tables last as long as a driver
    node_code_dir: Path = NODE_CODE  # as installed here
    python: str = sys.executable
    server_file: Path | None = None  # server.json, on the server's own machine


def agent_config(
    request: LaunchRequest, machine: Machine, settings: Settings, *, environments: Mapping[str, str], **more: Any
) -> AgentConfig:
    """The agent's configuration. `environments`: see `environments_of`; `more`: other fields of AgentConfig."""
    return AgentConfig(
        instance_id=request.instance_id,
        agent_token=request.agent_token,
        server_token=request.server_token,
        server_url=request.server_url,
        server_file=_text(machine.server_file),
        servers=request.servers,
        encrypted=request.encrypted,
        server_ca=request.server_ca,
        instance_dir=str(machine.instance_dir),
        data_dir=_text(machine.data_dir),
        storage_dir=_text(machine.storage_dir),
        cache_dir=str(machine.cache_dir),
        logs_dir=str(machine.logs_dir),
        dbfs_dir=_text(machine.dbfs_dir),
        volumes_dir=_text(machine.volumes_dir),
        workspace_dir=_text(machine.workspace_dir),
        clusters_dir=_text(machine.clusters_dir),
        workspaces_dir=_text(machine.workspaces_dir),
        metastore_dir=_text(machine.metastore_dir),
        node_code_dir=str(machine.node_code_dir),
        python=machine.python,
        isolation=settings.isolation,
        log_format=settings.log_format,
        orphan_grace_s=settings.orphan_grace_s,
        init_script_timeout_s=settings.init_script_timeout_s,
        log_delivery_s=settings.log_delivery_s,
        cores=request.node_type.num_cores,
        memory_mb=request.node_type.memory_mb,
        memory_guard_share=settings.memory_guard_share,
        min_free_disk=int(settings.min_free_disk_gb * (1 << 30)),
        machine_credentials=credential_rules(settings),
        environments=dict(environments),
        **more,
    )


def credential_rules(settings: Settings) -> MachineCredentials:
    return MachineCredentials(settings.machine_credentials, settings.credential_endpoints)


def environments_of(runtimes: Iterable[Runtime]) -> dict[str, str]:
    """Runtime key -> the environment it is installed into."""
    return {runtime.key: runtime.environment for runtime in runtimes}


def encoded(config: AgentConfig) -> bytes:
    """The contents of CONFIG_FILE."""
    return msgspec.json.encode(config)


def command(instance_dir: Path, *, python: str = sys.executable) -> list[str]:
    """The agent's command line. It must be a session leader, and may run as any user."""
    return [python, "-m", "brickyard.agent", "--config", str(instance_dir / CONFIG_FILE)]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for an agent on this machine: ours without secrets, and with paths made absolute."""
    env = {key: value for key, value in environ.items() if key in _PASSED_ON or not key.startswith(_SECRET)}
    if "PYTHONPATH" in env:
        env["PYTHONPATH"] = os.pathsep.join(str(Path(path).resolve()) for path in env["PYTHONPATH"].split(os.pathsep) if path)
    return env


def _text(path: Path | None) -> str:
    return str(path) if path is not None else ""
