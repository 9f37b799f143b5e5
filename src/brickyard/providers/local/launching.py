"""Starts instances: makes the directory atomically, and starts the agent. Call from one thread of one server at a time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from brickyard.agent.config import AgentConfig
from brickyard.config.settings import Settings
from brickyard.domain.clock import Clock
from brickyard.machine import cgroups, files
from brickyard.machine.gpus import Gpu
from brickyard.providers import bootstrap
from brickyard.providers.base import LaunchRequest
from brickyard.providers.bootstrap import Machine
from brickyard.providers.capacity import allowance
from brickyard.providers.local.instances import Instances, Launched
from brickyard.providers.local.networks import LocalNetworks
from brickyard.storage.directory import Storage


class Launcher:
    """One per provider."""

    def __init__(
        self,
        *,
        settings: Settings,
        storage: Storage,
        instances: Instances,
        networks: LocalNetworks,
        server_file: Path,
        environments: Mapping[str, str],
        node_code_dir: Path,
        python: str,
        clock: Clock,
        gpu_file: str,
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._instances = instances
        self._networks = networks
        self._server_file = server_file
        self._environments = dict(environments)
        self._node_code_dir = node_code_dir
        self._python = python
        self._clock = clock
        self._gpu_file = gpu_file
        self._scope: list[str] | None = None  # not determined yet

    def record(self, request: LaunchRequest, *, gpus: Sequence[Gpu]) -> None:
        """Makes the directory with all that the agent needs, atomically. Raises OSError."""
        directory = self._instances.root / request.instance_id
        taken = [each.address for each in map(self._instances.launched, self._instances.listed()) if each is not None]
        record = Launched(
            node_type=request.node_type, launched_ms=self._clock.now_ms(), gpus=tuple(each.number for each in gpus),
            tags=request.tags, address=self._networks.address(request.instance_id, taken),
        )  # fmt: skip
        half_made = self._instances.root / f".{request.instance_id}"
        files.remove_tree(half_made)
        half_made.mkdir(mode=0o700)
        files.write_atomic(half_made / bootstrap.CONFIG_FILE, bootstrap.encoded(self._config(request, directory, record, gpus)))
        files.write_atomic(half_made / "instance.json", msgspec.json.encode(record))
        half_made.rename(directory)

    def _config(self, request: LaunchRequest, directory: Path, record: Launched, gpus: Sequence[Gpu]) -> AgentConfig:
        settings = self._settings
        machine = Machine(
            instance_dir=directory,
            cache_dir=settings.cache_dir,
            logs_dir=self._storage.logs.root,
            data_dir=settings.data_dir,
            storage_dir=self._storage.root,
            dbfs_dir=self._storage.dbfs,
            volumes_dir=self._storage.volumes,
            workspace_dir=self._storage.workspace,
            clusters_dir=self._storage.clusters,
            workspaces_dir=self._storage.workspaces,
            metastore_dir=self._storage.metastore,
            node_code_dir=self._node_code_dir,
            python=self._python,
            server_file=self._server_file,
        )
        return bootstrap.agent_config(
            request, machine, settings,
            environments=self._environments,
            host=loopback_address(request.instance_id),
            gpus=record.gpus,
            gpu_uuids=tuple(each.uuid for each in gpus),
            gpu_file=self._gpu_file,
            node_disk=allowance(settings.node_disk_gb, self._instances.root),
            **self._networks.settings(record.address),
        )  # fmt: skip

    def spawn(self, instance_id: str) -> None:
        """Starts the agent in a new session, so that it outlives us. Raises OSError."""
        directory = self._instances.root / instance_id
        if self._scope is None:
            self._scope = cgroups.scope()
        command = [*self._scope, *bootstrap.command(directory, python=self._python)]
        switchboard = self._networks.switchboard
        command += ["--switchboard", str(switchboard)] if switchboard >= 0 else []
        log = os.open(directory / "agent.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            self._instances.children[instance_id] = subprocess.Popen(
                command, env=bootstrap.environment(os.environ), cwd="/", start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=(switchboard,) if switchboard >= 0 else (),
            )  # fmt: skip
        finally:
            os.close(log)


def loopback_address(instance_id: str) -> str:
    """The instance's own loopback address, always the same for an id: 127.64.0.1 to 127.127.255.254.

    Spark takes an address for a machine. If all nodes had the same one, a worker that leaves or dies would take along all the
    others' shuffle files. Only Linux answers on all of 127.0.0.0/8; elsewhere nodes share 127.0.0.1.
    """
    if sys.platform != "linux":
        return "127.0.0.1"
    second, third, last = hashlib.blake2b(instance_id.encode(), digest_size=3).digest()
    return f"127.{64 + second % 64}.{third}.{1 + last % 254}"
