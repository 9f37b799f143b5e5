"""The embedded provider: every instance is an agent process on this machine, with its own directory.

The directories are the record (`instances.py`). Memory holds nothing that another server could not read from them, so if a server
is killed between any two steps, the next one sees the instance and ends or adopts it. Several servers may use the same storage at
once: a file lock protects the allocation of room, addresses and GPUs.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from brickyard.config.settings import Settings
from brickyard.domain.clock import Clock, SystemClock
from brickyard.domain.nodetypes import NodeType
from brickyard.machine import gpus
from brickyard.providers import bootstrap, nodetypes
from brickyard.providers.base import Capacity, CapacityError, InvalidError, LaunchRequest, Observed, Provider, TransientError
from brickyard.providers.capacity import Hardware, require, require_disk, this_machine
from brickyard.providers.local.ending import Ender
from brickyard.providers.local.gpus import choose, held
from brickyard.providers.local.instances import Instances
from brickyard.providers.local.launching import Launcher
from brickyard.providers.local.networks import LocalNetworks
from brickyard.runtime import NODE_CODE, catalogue
from brickyard.sandbox.launcher import Network
from brickyard.storage.directory import Storage

CLOSE_PATIENCE_S = 20.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,60}")


class LocalProvider(Provider):
    """See `providers.base.Provider`. `server_file` (server.json) names the server that agents launched here call first.
    `gpu_file` stands in for NVML (`agent.gpus.opened`)."""

    name = "local"
    ends_with_server = True
    where = "here"

    def __init__(
        self,
        *,
        settings: Settings,
        server_file: Path,
        node_types: Sequence[NodeType] | None = None,
        machine: Hardware | None = None,
        environments: Mapping[str, str] | None = None,
        node_code_dir: Path | None = None,
        python: str = sys.executable,
        clock: Clock | None = None,
        gpu_file: str = "",
    ) -> None:
        self._gpus = gpus.opened(gpu_file)
        found = self._gpus.found()
        self._node_types = nodetypes.offered(found) if node_types is None else tuple(node_types)
        self._machine = machine or this_machine(gpus=len(found))
        self._total = self._machine.times(cores=settings.cpu_overcommit, memory=settings.memory_overcommit)
        known = bootstrap.environments_of(catalogue.rows()) if environments is None else environments
        clock = clock or SystemClock()
        storage = Storage(settings.storage_dir)
        networks = LocalNetworks(settings=settings, storage=storage, python=python)
        self._networks = networks
        self._instances = Instances(storage=storage, clock=clock)
        self._launcher = Launcher(
            settings=settings, storage=storage, instances=self._instances, networks=networks, server_file=server_file,
            environments=known, node_code_dir=node_code_dir or NODE_CODE, python=python, clock=clock, gpu_file=gpu_file,
        )  # fmt: skip
        self._ender = Ender(
            instances=self._instances,
            networks=networks,
            logs=storage.logs.root,
            clock=clock,
            log_as_json=settings.log_format == "json",
        )

    def node_types(self) -> Sequence[NodeType]:
        return self._node_types

    def capacity(self) -> Capacity:
        with self._instances.lock:
            left = self._left()
        return Capacity(
            cores_total=self._total.cores,
            cores_left=left.cores,
            memory_mb_total=self._total.memory_mb,
            memory_mb_left=left.memory_mb,
        )

    def shortage(self, wanted: Sequence[NodeType], *, freed: Collection[str] = ()) -> CapacityError | None:
        with self._instances.lock:
            staying = self._instances.living(without=freed)
        left = self._total.without(Hardware.of(each.node_type, self._machine) for each in staying)
        try:
            for node_type in wanted:
                require(node_type, machine=self._machine, total=self._total, left=left)
                left = left.without([Hardware.of(node_type, self._machine)])
        except CapacityError as error:
            return error
        return None

    def launch(self, request: LaunchRequest) -> None:
        """See Provider.launch."""
        instance_id, instances = request.instance_id, self._instances
        if not _ID.fullmatch(instance_id):
            raise InvalidError(f"{instance_id!r} cannot be the name of an instance")
        try:
            with instances.alone():
                if instances.is_ending(instance_id):
                    raise InvalidError(f"instance {instance_id} was terminated and cannot be launched again")
                if not (instances.root / instance_id).exists():
                    require_disk(instances.root)
                    require(request.node_type, machine=self._machine, total=self._total, left=self._left())
                    self._launcher.record(request, gpus=self._free_gpus(request.node_type.num_gpus))
                if not instances.was_started(instance_id):
                    self._launcher.spawn(instance_id)
        except OSError as error:
            raise TransientError(f"instance {instance_id} cannot be started here: {error}") from error

    def _left(self) -> Hardware:
        """The room beside the living instances. Those that are ending do not count: a cluster that restarts must not be refused
        because of itself."""
        return self._total.without(Hardware.of(each.node_type, self._machine) for each in self._instances.living())

    def _free_gpus(self, count: int) -> Sequence[gpus.Gpu]:
        return choose(count, found=self._gpus.found(), held=held(self._instances)) if count else ()

    def lend_network(self) -> AbstractAsyncContextManager[Network | None]:
        """See Provider.lend_network."""
        return self._networks.lend(self._instances.alone)

    def observe(self) -> Mapping[str, Observed]:
        """See Provider.observe. Takes some tens of microseconds per instance."""
        instances = self._instances
        try:
            with instances.lock:
                return {each: Observed(instance_id=each, alive=instances.alive(each)) for each in instances.listed()}
        except OSError as error:
            raise TransientError(f"the instances in {instances.root} cannot be listed: {error.strerror}") from error

    def terminate(self, instance_id: str, *, reason: str) -> None:
        """See Provider.terminate. Every call continues where the last one stopped, on whichever server that was."""
        if not _ID.fullmatch(instance_id):
            return
        with self._instances.lock:
            if instance_id in self._instances.busy:
                return
            self._instances.busy.add(instance_id)
        try:
            self._ender.end(instance_id, reason)
        except OSError as error:
            raise TransientError(f"instance {instance_id} cannot be removed yet: {error}") from error
        finally:
            with self._instances.lock:
                self._instances.busy.discard(instance_id)

    def close(self, *, keep_nodes: bool) -> None:
        """See Provider.close. Ends all instances at once; returns when they are gone, or after CLOSE_PATIENCE_S."""
        if keep_nodes:
            return
        deadline = time.monotonic() + CLOSE_PATIENCE_S
        while (left := self._listed()) and time.monotonic() < deadline:
            for instance_id in left:
                with contextlib.suppress(OSError):
                    self._ender.end(instance_id, "the server is stopping", linger_s=0)
            time.sleep(0.02)

    def _listed(self) -> set[str]:
        with self._instances.lock:
            return self._instances.listed()
