"""What is known of the cluster's machines, as far as we may list them: read now and then, and at once where room is decided."""

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
    """Safe to use from several threads. `start`, and `stop` at the end."""

    def __init__(self, api: Api, *, machines: bool, pods: bool) -> None:
        self._api = api
        self._machines = machines
        self._pods = pods
        self._reading = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.read_s = 0.0  # when the snapshot began to be read

    def start(self) -> None:
        """Reads for the first time, and from then on in the background."""
        if self._machines:
            self._read()
            self._thread = threading.Thread(target=self._run, name="kubernetes-machines", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(LATER_S):
            self.fresh(LATER_S)

    @property
    def sees_room(self) -> bool:
        """Whether we may list both machines and all pods."""
        return self._machines and self._pods

    @property
    def snapshot(self) -> Snapshot | None:
        """What was last read; None if we may not list machines."""
        return self._snapshot

    def fresh(self, max_age_s: float) -> Snapshot | None:
        """The same, read again if it is older. If that fails, what was last read."""
        with self._reading:
            if self._machines and time.monotonic() - self.read_s > max_age_s:
                self._read()
            return self._snapshot

    def _read(self) -> None:
        began_s = time.monotonic()
        try:
            machines = self._api.get("/api/v1/nodes", MachineList)
            params = {"fieldSelector": _RUNNING}
            pods = self._api.get("/api/v1/pods", PodList, params=params).items or () if self._pods else None
        except (RefusedError, UnreachableError) as error:
            log.warning("kubernetes_machines_unknown", error=str(error))
            return
        self._snapshot, self.read_s = Snapshot(machines=machines.items or (), pods=pods), began_s

    def machine(self, name: str) -> Machine | None:
        """What was last heard of a machine."""
        snapshot = self._snapshot
        found = snapshot.machines if snapshot is not None else ()
        return next((each for each in found if each.metadata.name == name), None)
