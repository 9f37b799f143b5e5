"""Instances as pods: one pod each, which is the only record of it.

What exists is asked of the API server each time, as a table of names: a copy kept by a watch may lack what another server has
just launched, and whoever is not listed counts as gone. What is said of each comes from the copy (`reflector.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from urllib.parse import quote

import structlog

from brickyard.domain.clock import SystemClock
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import (
    Capacity,
    CapacityError,
    InvalidError,
    LaunchRequest,
    Observed,
    Provider,
    Setup,
    TransientError,
)
from brickyard.providers.engines import units
from brickyard.providers.kubernetes import machines, pods, telling
from brickyard.providers.kubernetes.api import TABLE, Api, RefusedError, UnreachableError, as_provider_error
from brickyard.providers.kubernetes.known import LATER_S, SOON_S, Known
from brickyard.providers.kubernetes.objects import Pod, PodList, Table
from brickyard.providers.kubernetes.reflector import Reflector
from brickyard.providers.kubernetes.section import KubernetesSection

log = structlog.get_logger(__name__)

_ENDING_S = 12.0  # what an agent needs to end its node
_REMEMBERED = 10_000
_MARGIN_S = 60.0  # beyond the time after which a lonely agent has ended itself


class KubernetesProvider(Provider):
    """See `providers.base.Provider`."""

    name = "kubernetes"
    where = "elsewhere"

    def __init__(self, *, setup: Setup, section: KubernetesSection, api: Api, namespace: str, known: Known) -> None:
        self._setup = setup
        self._section = section
        self._api = api
        self._known = known
        self._workspace_id = setup.workspace_id
        self._orphan_grace_s = setup.settings.orphan_grace_s
        self._pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self._secrets_path = f"/api/v1/namespaces/{namespace}/secrets"
        self._policies_path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
        self._selector = pods.selector(self._workspace_id)
        self._storage_dir = section.machine_storage_dir or str(setup.settings.storage_dir)
        self._offered: tuple[machines.Snapshot | None, Sequence[NodeType]] | None = None
        self._lock = threading.Lock()
        self._clock = SystemClock()
        self._recent: dict[str, tuple[float, NodeType]] = {}  # launched here lately, and when
        self._unwanted: dict[str, None] = {}  # terminated here lately: a kubelet may forget one at any moment
        self._reflector = Reflector(api, self._pods_path, self._selector)
        known.start()
        self._reflector.start()

    def close(self, *, keep_nodes: bool) -> None:
        """See Provider.close. The pods go on; their agents end themselves if no server comes back."""
        del keep_nodes
        self._known.stop()
        self._reflector.stop()
        self._api.close()

    # ── what there is ──

    def node_types(self) -> Sequence[NodeType]:
        """See Provider.node_types. Asks nobody."""
        named = self._section.named_types()
        known = {each.node_type_id for each in named}
        snapshot = self._known.snapshot
        if self._offered is None or self._offered[0] is not snapshot:
            found = machines.node_types(snapshot)
            self._offered = (snapshot, (*named, *(each for each in found if each.node_type_id not in known)))
        return self._offered[1]

    def capacity(self) -> Capacity | None:
        if not self._known.sees_room or (snapshot := self._known.fresh(SOON_S)) is None:
            return None
        room = machines.Room(snapshot)
        total, left = room.total.values(), room.left.values()
        return Capacity(
            cores_total=sum(each.cores for each in total),
            cores_left=sum(each.cores for each in left),
            memory_mb_total=sum(each.memory_mb for each in total),
            memory_mb_left=sum(each.memory_mb for each in left),
        )

    def shortage(self, wanted: Sequence[NodeType], *, freed: Collection[str] = ()) -> CapacityError | None:
        """See Provider.shortage. None where the cluster grows by itself."""
        if self._section.autoscaler or not self._known.sees_room:
            return None
        snapshot = self._known.fresh(SOON_S)
        if snapshot is None or snapshot.pods is None:
            return None
        freed = {*freed, *self._ended()}
        room = machines.Room(snapshot, freed=freed)
        listed = {(pod.metadata.labels or {}).get(pods.INSTANCE) for pod in snapshot.pods}
        try:
            for instance_id, kind in self._launched_since(self._known.read_s).items():
                if instance_id not in listed and instance_id not in freed:
                    room.take(kind, self._section.template_of(kind.node_type_id))
            for each in sorted(wanted, key=lambda kind: (-kind.num_gpus, -kind.num_cores, -kind.memory_mb)):
                room.take(each, self._section.template_of(each.node_type_id))
        except CapacityError as error:
            return error
        return None

    def _ended(self) -> set[str]:
        """Instances whose pods have ended or are being deleted: the last look at the machines may be from before that.
        What replaces one must not be refused because of it."""
        with self._lock:
            unwanted = set(self._unwanted)
        copy = self._reflector.pods() or {}
        ending = {name for name, pod in copy.items() if pod.metadata.deletion_timestamp or telling.has_ended(pod)}
        return unwanted | {name.removeprefix(pods.PREFIX) for name in ending}

    def observe(self) -> Mapping[str, Observed]:
        """See Provider.observe."""
        try:
            copy = self._reflector.pods()
            names = self._names() if copy is not None else ()
            if copy is None:
                found = self._api.get(self._pods_path, PodList, params={"labelSelector": self._selector}).items or ()
                copy = {pod.metadata.name: pod for pod in found}
                names = tuple(copy)
        except (RefusedError, UnreachableError) as error:
            raise TransientError(f"the pods of the workspace cannot be listed: {error}") from error
        grows = self._section.autoscaler
        listed = {name: name.removeprefix(pods.PREFIX) for name in names}
        return {
            instance_id: telling.observed(instance_id, copy.get(name), machine=self._known.machine, grows=grows)
            for name, instance_id in listed.items()
        }

    def _names(self) -> Sequence[str]:
        params = {"labelSelector": self._selector, "includeObject": "None"}
        table = self._api.get(self._pods_path, Table, params=params, accept=TABLE)
        column = next((index for index, each in enumerate(table.column_definitions or ()) if each.name == "Name"), None)
        if column is None:
            raise UnreachableError("the table of pods has no names")
        return [str(row.cells[column]) for row in table.rows or () if row.cells]

    # ── launching ──

    def _launched_since(self, when_s: float) -> Mapping[str, NodeType]:
        """What the last look at the machines cannot have seen."""
        with self._lock:
            self._recent = {name: each for name, each in self._recent.items() if each[0] >= when_s}
            return {name: kind for name, (_, kind) in self._recent.items()}

    def launch(self, request: LaunchRequest) -> None:
        """See Provider.launch. Each step can be repeated, by this server or another one."""
        if not pods.is_name(request.instance_id):
            raise InvalidError(f"{request.instance_id!r} cannot be the name of a pod")
        if request.instance_id in self._unwanted:
            raise InvalidError(f"instance {request.instance_id} was terminated and cannot be launched again")
        try:
            if (short := self.shortage((request.node_type,))) is not None and self._found(request.instance_id) is None:
                raise short
            pod = self._pod(request)
            with self._lock:
                self._recent[request.instance_id] = (time.monotonic(), request.node_type)
            unit = units.unit(request, self._setup, self._section, notice_s=max(0.0, self._section.grace_s - _ENDING_S))
            made = pods.secret(pod, unit, workspace_id=self._workspace_id)
            self._api.apply(f"{self._secrets_path}/{pod.metadata.name}", made, object)
            if self._section.network_policies:
                self._let_in(pods.group_of(request), pod)
        except (RefusedError, UnreachableError) as error:
            raise as_provider_error(error, f"instance {request.instance_id} cannot be launched") from error

    def _pod(self, request: LaunchRequest) -> Pod:
        made = pods.pod(request, section=self._section, workspace_id=self._workspace_id, storage_dir=self._storage_dir)
        try:
            pod = self._api.apply(self._path(request.instance_id), made, Pod)
        except RefusedError as error:
            # What a pod has asked for cannot be changed: it was launched by a server with other settings.
            existing = self._found(request.instance_id) if error.code in (409, 422) else None
            if existing is None:
                raise
            pod = existing
        if pod.metadata.deletion_timestamp or pod.status.phase in telling.ENDED:
            raise InvalidError(f"instance {request.instance_id} was terminated and cannot be launched again")
        return pod

    def _let_in(self, group: str, pod: Pod) -> None:
        """Makes the pod an owner of its group's network policy, which goes with its last owner."""
        path = f"{self._policies_path}/{pods.policy_name(group, self._workspace_id)}"
        owned = {"metadata": {"ownerReferences": [pods.owner(pod)]}}
        try:
            self._api.merge(path, owned)
        except RefusedError as error:
            if error.code != 404:
                raise
            self._api.apply(path, pods.policy(group, section=self._section, workspace_id=self._workspace_id), object)
            self._api.merge(path, owned)

    # ── ending ──

    def terminate(self, instance_id: str, *, reason: str) -> None:
        """See Provider.terminate."""
        if not pods.is_name(instance_id):
            return
        with self._lock:
            self._unwanted[instance_id] = None
            while len(self._unwanted) > _REMEMBERED:
                del self._unwanted[next(iter(self._unwanted))]
        try:
            pod = self._found(instance_id)
            if pod is None or (pod.metadata.labels or {}).get(pods.WORKSPACE) != self._workspace_id:
                return
            options: dict[str, object] = {"preconditions": {"uid": pod.metadata.uid}}
            if pod.metadata.deletion_timestamp:
                if not self._is_lost(pod):
                    return
                options["gracePeriodSeconds"] = 0
                log.warning("kubernetes_pod_forced", instance_id=instance_id, machine=pod.spec.node_name)
            else:
                log.info("kubernetes_pod_deleted", instance_id=instance_id, reason=reason)
            self._api.delete(self._path(instance_id), options)
        except RefusedError as error:
            if error.code not in (404, 409):  # it has gone; another pod has its name, which is not what was meant
                raise self._not_ended(instance_id, error) from error
        except UnreachableError as error:
            raise self._not_ended(instance_id, error) from error

    @staticmethod
    def _not_ended(instance_id: str, error: RefusedError | UnreachableError) -> Exception:
        found = as_provider_error(error, f"instance {instance_id} cannot be ended")
        return TransientError(str(found)) if isinstance(found, InvalidError) else found

    def _is_lost(self, pod: Pod) -> bool:
        """Whether no kubelet will ever confirm the pod's end, and nothing of it runs any more. (A pod that is deleted by force is
        forgotten, whatever its machine does.)"""
        name = pod.spec.node_name
        deleted = datetime.fromisoformat(pod.metadata.deletion_timestamp or "")  # its grace included
        over_s = self._clock.now_ms() / 1000 - deleted.timestamp()
        if not name:
            return over_s > _MARGIN_S
        if over_s < 0:
            return False
        snapshot = self._known.fresh(LATER_S)
        machine = self._known.machine(name)
        if snapshot is not None and machine is None:
            return True
        if machine is not None:
            if any(taint.key == machines.OUT_OF_SERVICE for taint in machine.spec.taints or ()):
                return True
            if machine.status.ready.status == "True":
                return False
        # Its machine is silent: an agent that is told nothing, or that it is not known, has ended itself by then.
        return over_s > self._orphan_grace_s + _MARGIN_S

    def _found(self, instance_id: str) -> Pod | None:
        try:
            return self._api.get(self._path(instance_id), Pod)
        except RefusedError as error:
            if error.code == 404:
                return None
            raise

    def _path(self, instance_id: str) -> str:
        return f"{self._pods_path}/{quote(pods.PREFIX + instance_id, safe='')}"
