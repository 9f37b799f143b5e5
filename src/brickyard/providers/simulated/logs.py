"""Logs of simulated nodes: real files, laid out as those of the local provider's, for tests of everything that deals with logs.

Nothing is written unless the knob `logs` is set: thousands of nodes would write thousands of files.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from brickyard.domain import nodeops
from brickyard.domain.node import Assignment, LogDelivery, Role
from brickyard.logs.delivery import Delivery, DeliveryRecord, Passes
from brickyard.logs.keep import DELIVERY_RECORD, NodeRecord, keep_node_logs
from brickyard.logs.logfiles import LogDirectory
from brickyard.machine import files
from brickyard.providers.simulated.kernels import KernelRefused
from brickyard.providers.simulated.knobsfile import HasKnobs
from brickyard.storage.directory import Storage


class SimulatedLogs:
    """The logs of every simulated node. Methods block for moments."""

    def __init__(self, storage: Storage | None, world: HasKnobs) -> None:
        self._storage = storage
        self._world = world
        self._nodes: dict[str, NodeRecord] = {}  # instance -> its node that writes logs

    def begin(self, instance_id: str, wanted: Assignment) -> None:
        """The instance has become that node, and writes its first lines."""
        self.end(instance_id)
        if self._storage is None or not self._world.knobs.logs or wanted.role is Role.WARM:
            return
        record = NodeRecord(cluster_id=wanted.cluster_id, generation=wanted.generation, role=wanted.role)
        self._nodes[instance_id] = record
        if wanted.logs is not None:
            node = f"{instance_id}-{wanted.generation}"
            begun = DeliveryRecord(destination=wanted.logs, cluster_id=wanted.cluster_id, node=node, role=wanted.role)
            place = self._storage.instances / instance_id
            place.mkdir(parents=True, exist_ok=True)
            files.write_atomic(place / DELIVERY_RECORD, msgspec.json.encode(begun))
        what = f"{wanted.role.value} of {wanted.cluster_id}, generation {wanted.generation}"
        for name in ("stdout", "stderr", "log4j-active.log"):
            self.write(instance_id, name, f"{name} of the simulated {what}\n".encode())

    def write(self, instance_id: str, name: str, data: bytes) -> None:
        """Appends to a log of a running node."""
        path = self.directory(instance_id) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            log.write(data)

    def directory(self, instance_id: str) -> Path:
        assert self._storage is not None  # noqa: S101 - only nodes of a world with storage have logs
        return self._storage.instance_logs(instance_id)

    def deliver(self, instance_id: str, *, final: bool = False) -> LogDelivery | None:
        """Delivers the logs of the instance's node; returns how that went, or None if they are only kept."""
        if instance_id not in self._nodes or self._storage is None:
            return None
        record = self._storage.instances / instance_id / DELIVERY_RECORD
        if not record.exists():
            return None
        roots = self._storage.log_roots
        error = Passes().run(
            lambda: Delivery(record, roots=roots), LogDirectory(self.directory(instance_id)), final=final, limit_s=5.0
        )
        return LogDelivery(attempted_ms=time.time_ns() // 1_000_000, error=error)

    def end(self, instance_id: str, *, killed: bool = False) -> None:
        """The instance's node has ended: keeps its logs. One that was killed has not delivered the last of them."""
        if not killed:
            self.deliver(instance_id, final=True)
        record = self._nodes.pop(instance_id, None)
        if record is not None and self._storage is not None:
            place = self._storage.instances / instance_id
            keep_node_logs(place, self._storage.logs.root, instance_id=instance_id, node=record)
            files.remove_tree(place)

    def call(self, instance_id: str, method: str, target: str) -> dict[str, Any] | None:
        """Answers a request for logs; None if it is another kind of request. Raises KernelRefused."""
        url = urlsplit(target)
        if not url.path.startswith("/v1/logs"):
            return None
        found = nodeops.asked(method, url.path, dict(parse_qsl(url.query)))
        node = self._nodes.get(instance_id)
        if node is None or found is None or found[1].generation not in (0, node.generation):
            raise KernelRefused("NOT_FOUND", "there is no such log")
        try:
            return self._answer(self.directory(instance_id), found[1])
        except ValueError as error:
            raise KernelRefused("INVALID", str(error)) from error
        except OSError as error:
            raise KernelRefused("NOT_FOUND", "there is no such log") from error

    def _answer(self, logs: Path, asked: msgspec.Struct) -> dict[str, Any]:
        answer: msgspec.Struct
        if isinstance(asked, nodeops.ReadLog):
            answer = LogDirectory(logs).read(asked.name, offset=asked.offset, position=asked.position, limit=asked.limit)
        else:
            listed = files.list_files(logs)
            answer = nodeops.Logs(files=tuple(nodeops.LogFile(name=name, size=size) for name, size in listed))
        plain: dict[str, Any] = msgspec.to_builtins(answer)
        return plain
