"""What is known of the cluster's machines: read again when it is old, if we may."""

from __future__ import annotations

import threading
import time

import structlog

from brickyard.providers.kubernetes.api import Api, RefusedError, UnreachableError
from brickyard.providers.kubernetes.machines import Snapshot
from brickyard.providers.kubernetes.objects import Machine, MachineList, PodList

log = structlog.get_logger(__name__)

SOON_S = 3.0  # for room
LATER_S = 30.0  # for node types and messages
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"


class Known:
    """Safe to use from several threads: one reads; others that are in no hurry take what there is."""

    def __init__(self, api: Api, *, machines: bool, pods: bool) -> None:
        self._api = api
        self._machines = machines
        self._pods = pods
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self.read_s = 0.0  # when the snapshot began to be read

    @property
    def sees_room(self) -> bool:
        """Whether we may list both."""
        return self._machines and self._pods

    def snapshot(self, *, max_age_s: float = LATER_S) -> Snapshot | None:
        """None if we may not list machines. If they cannot be listed now, the last known ones."""
        if not self._machines:
            return None
        if not self._lock.acquire(blocking=self._snapshot is None or max_age_s < LATER_S):
            return self._snapshot
        try:
            if self._snapshot is None or time.monotonic() - self.read_s > max_age_s:
                self._read()
            return self._snapshot
        finally:
            self._lock.release()

    def _read(self) -> None:
        self.read_s = time.monotonic()
        try:
            machines = self._api.get("/api/v1/nodes", MachineList)
            params = {"fieldSelector": _RUNNING}
            pods = self._api.get("/api/v1/pods", PodList, params=params).items or () if self._pods else None
            self._snapshot = Snapshot(machines=machines.items or (), pods=pods)
        except (RefusedError, UnreachableError) as error:
            log.warning("kubernetes_machines_unknown", error=str(error))

    def machine(self, name: str) -> Machine | None:
        """What was last heard of a machine; asks nobody."""
        snapshot = self._snapshot
        found = snapshot.machines if snapshot is not None else ()
        return next((each for each in found if each.metadata.name == name), None)
