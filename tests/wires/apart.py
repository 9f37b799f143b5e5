"""A provider whose machines are loopback addresses: each instance is a process that believes to be on a machine of its own,
and is started as engines do it. Everything else is real."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

import msgspec

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import LaunchRequest, Observed, Provider, Setup
from brickyard.providers.bootstrap import environment
from brickyard.providers.engines.sections import EngineSection
from brickyard.providers.engines.units import unit
from brickyard.providers.nodetypes import machine_types

NAME = "apart"
NETWORK = "127.0.77."  # its machines


class Section(msgspec.Struct, frozen=True):
    """[apart]."""

    host: str = ""  # the one address of all machines; empty: each has its own


class ApartProvider(Provider):
    name = NAME
    where = "elsewhere"
    ends_with_server = True

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._host = setup.section(Section, NAME).host
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def node_types(self) -> Sequence[NodeType]:
        return tuple(
            msgspec.structs.replace(each, node_type_id=f"{NAME}.{each.node_type_id.partition('.')[2]}")
            for each in machine_types(cores=2, memory_mb=4096)
        )

    def launch(self, request: LaunchRequest) -> None:
        with self._lock:
            if request.instance_id in self._processes:
                return
            number = len(self._processes) + 1
            host = self._host or f"{NETWORK}{number}"
            machine = self._setup.data_dir / "machines" / str(number)
            section = EngineSection(machine_dir=str(machine), machine_cache_dir=str(self._setup.settings.cache_dir))
            process = subprocess.Popen(
                [sys.executable, "-m", "brickyard.agent", "--unit", "-"],
                stdin=subprocess.PIPE,
                env=environment(os.environ),
                cwd="/",
            )
            self._processes[request.instance_id] = process
            assert process.stdin is not None
            process.stdin.write(unit(request, self._setup, section, host=host))
            process.stdin.close()

    def terminate(self, instance_id: str, *, reason: str) -> None:
        with self._lock:
            process = self._processes.get(instance_id)
        if process is not None and process.poll() is None:
            process.terminate()

    def observe(self) -> Mapping[str, Observed]:
        with self._lock:
            return {name: Observed(instance_id=name, alive=True) for name, each in self._processes.items() if each.poll() is None}

    def close(self, *, keep_nodes: bool) -> None:
        with self._lock:
            for process in self._processes.values():
                process.terminate()
            for process in self._processes.values():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                process.kill()


def open_provider(setup: Setup) -> ApartProvider:
    return ApartProvider(setup)
