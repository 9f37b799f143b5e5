"""A cluster with its machines, moved by hand: every call, every answer of the provider and every report is one step.

The service, the store and the pass are the real ones; there is no loop and no clock but the test's, so that any order of steps
can be played and played again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

import msgspec

from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster, Instance, LaunchError, public_state
from brickyard.domain.errors import InvalidState
from brickyard.domain.events import EventDetailsCause
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Assignment, Failure, Load, NodeStatus, Phase, Role, StatusReport, WorkerLoad
from brickyard.domain.requests import CreateCluster
from brickyard.domain.states import State
from brickyard.nodes.loads import Loads
from brickyard.nodes.reports import record_report
from brickyard.plan.autoscale import Rules
from brickyard.plan.policy import Policy
from brickyard.providers.base import Observed
from brickyard.reconcile.clusters import pass_over_cluster
from brickyard.reconcile.instances import mark_gone
from brickyard.reconcile.launches import record_launch
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL, SPARK_4
from brickyard.testing.clock import ManualClock
from tests.support.services import cluster_service

ADMIN = Caller(user_name="admin@example.com", user_id="1", is_admin=True, token_id="t")
RUNTIME = SPARK_4
SIZES = {name: msgspec.structs.replace(SMALL, node_type_id=name) for name in ("small", "large")}
POLICY = Policy(autoscale=Rules(up_after_ms=1_000, down_after_ms=20_000), spot_markets=frozenset({""}))
SLOTS = 4


class CountedIds(Ids):
    """The same ids for the same steps."""

    def __init__(self) -> None:
        self._instances = itertools.count()

    def instance_id(self) -> str:
        return f"i-{next(self._instances):016d}"


class Steps:
    """One cluster. `now`, `tasks` and the machines are the test's to change."""

    def __init__(self, store: Store, request: CreateCluster) -> None:
        self.store = store
        self.clock = ManualClock()
        self.ids = CountedIds()
        self.tasks = 0
        self.exists: set[str] = set()  # instances that the provider has
        self.launches: dict[str, Instance] = {}  # launch calls that have not been answered
        self.idle: dict[str, int] = {}  # worker address -> since when
        self.backlog_since = 0
        self.service = cluster_service(store, clock=self.clock, ids=self.ids, node_types=list(SIZES.values()))
        self.cluster_id = self.call(self.service.create(ADMIN, request))

    def call(self, request: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(request)

    def ask(self, allowed: set[State], request: Coroutine[Any, Any, Any]) -> None:
        """A call that is for those states only: it works in them, and says so in every other."""
        before = public_state(self.cluster)
        try:
            self.call(request)
        except InvalidState as refused:
            assert before not in allowed, refused
            named = (self.cluster_id, f"unexpected state {before.value.capitalize()}.")
            assert [each for each in named if each not in str(refused)] == [], refused
        else:
            assert before in allowed, f"allowed in {before}"

    @property
    def cluster(self) -> Cluster:
        found = self.store.read_sync(lambda tx: tx.clusters.get(self.cluster_id))
        assert found is not None
        return found

    @property
    def nodes(self) -> list[Instance]:
        return self.store.read_sync(lambda tx: tx.instances.of_cluster(self.cluster_id))

    # -- the server ----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """A pass, and what must hold after it."""
        before, load = {node.instance_id: node for node in self.nodes}, self.load()
        loads = Loads()
        for node in before.values():
            if node.role is Role.DRIVER and node.assignment is not None and node.status.generation == node.assignment.generation:
                loads.hear(node.instance_id, node.assignment.generation, load)
        now = self.clock.now_ms()
        left = self.store.write_sync(
            lambda tx: pass_over_cluster(
                tx, self.cluster_id, now=now, sizes=SIZES, policy=POLICY, ids=self.ids, silent=frozenset(), loads=loads
            )
        )
        self.launches |= {node.instance_id: node for node in left.calls.launch}
        self.check(before, load)

    def check(self, before: dict[str, Instance], load: Load) -> None:
        of, nodes = self.cluster, self.nodes
        current = [node for node in nodes if node.live and node.generation == of.incarnation]
        workers = [node for node in current if node.role is Role.WORKER]
        staying = [node for node in workers if not node.retiring]
        assert len(current) - len(workers) <= 1, "one driver"
        if public_state(of) is State.TERMINATED:
            assert not nodes
        if public_state(of) in (State.TERMINATED, State.TERMINATING):
            assert not any(node.live for node in nodes)
            return
        assert len(staying) <= of.num_workers, "no more workers than are wanted"
        if of.grow_after_ms <= self.clock.now_ms():
            assert len(staying) == of.num_workers, "and no fewer, unless it waits for room"
        if (scale := of.spec.autoscale) is not None:
            assert (scale.min_workers or 0) <= of.num_workers <= (scale.max_workers or 0)
        if public_state(of) is State.RUNNING and of.resize_cause is EventDetailsCause.AUTOSCALE:
            assert of.sized
        busy = {worker.address for worker in load.workers if worker.running}
        fresh = [node for node in workers if node.retiring and not before[node.instance_id].retiring]
        if fresh and of.resize_cause is EventDetailsCause.AUTOSCALE:
            assert not busy & {node.status.worker_address for node in fresh}, "autoscale spares workers that run tasks"

    # -- the provider --------------------------------------------------------------------------------------------------

    def answer_launch(self, instance_id: str, kind: str = "") -> None:
        """The provider's answer to a launch: an instance, or an error of that kind."""
        del self.launches[instance_id]
        error = LaunchError(kind=kind, message="refused") if kind else None
        if error is None:
            self.exists.add(instance_id)
        now = self.clock.advance(ms=1)
        self.store.write_sync(lambda tx: record_launch(tx, instance_id, error, now=now))

    def vanish(self, instance_id: str) -> None:
        self.exists.discard(instance_id)

    def observe(self) -> None:
        """The monitor's look: what is gone leaves, what was sent away goes."""
        nodes = self.nodes
        listed = {name: Observed(instance_id=name, alive=True) for name in self.exists}
        living = (InstanceState.LAUNCHED, InstanceState.REGISTERED)
        suspects = {node.instance_id: "it is gone" for node in nodes if node.state in living and node.instance_id not in listed}
        for node in nodes:
            if node.state is InstanceState.TERMINATING:
                self.exists.discard(node.instance_id)
                listed.pop(node.instance_id, None)
                self.launches.pop(node.instance_id, None)
                suspects[node.instance_id] = ""
        self.clock.advance(ms=1)
        self.store.write_sync(lambda tx: mark_gone(tx, suspects, listed))

    # -- the agents ----------------------------------------------------------------------------------------------------

    def report(self, node: Instance, *, failed: bool = False) -> None:
        """The node does the next thing that its assignment asks for, and says so."""
        if node.instance_id not in self.exists or node.assignment is None:
            return
        status = _next(node, node.assignment, failed=failed)
        if node.role is Role.DRIVER and status.phase is Phase.READY:
            status = msgspec.structs.replace(status, alive_workers=tuple(sorted(self.addresses())))
        report = StatusReport(instance_id=node.instance_id, boot_id="b", endpoint="http://x", pid=1, status=status)
        now = self.clock.advance(ms=1)
        self.store.write_sync(lambda tx: record_report(tx, report, now=now))

    def addresses(self) -> set[str]:
        """Workers that serve: the master's list."""
        return {
            node.status.worker_address
            for node in self.nodes
            if node.instance_id in self.exists and node.role is Role.WORKER and node.current_status.phase is Phase.READY
        }

    def load(self) -> Load:
        """The tasks, on the workers one after the other."""
        left, now, workers = self.tasks, self.clock.now_ms(), []
        for address in sorted(self.addresses()):
            running = min(left, SLOTS)
            left -= running
            if running:
                self.idle.pop(address, None)
            since = 0 if running else self.idle.setdefault(address, now)
            workers.append(WorkerLoad(address=address, slots=SLOTS, running=running, idle_since_ms=since, held_mb=0))
        self.backlog_since = (self.backlog_since or now) if left else 0
        return Load(pending=left, backlog_since_ms=self.backlog_since, workers=tuple(workers))

    # -- the end -------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Nothing goes wrong any more: the cluster comes to rest, as it should be."""
        self.tasks = 0
        for _ in range(200):
            for name in list(self.launches):
                self.answer_launch(name)
            for node in self.nodes:
                self.report(node)
            self.observe()
            self.clock.advance(seconds=15)
            self.look()
            of = self.cluster
            low = of.spec.autoscale.min_workers if of.spec.autoscale else of.num_workers
            state = public_state(of)
            if state is State.TERMINATED or (state is State.RUNNING and of.num_workers == low and not self.leaving()):
                break
        assert public_state(self.cluster) in (State.RUNNING, State.TERMINATED), self.cluster
        assert {node.instance_id for node in self.nodes} == self.exists
        if public_state(self.cluster) is State.RUNNING:
            assert len(self.exists) == self.cluster.num_workers + 1

    def leaving(self) -> bool:
        return any(node.retiring or not node.live or not node.ready for node in self.nodes)


def _next(node: Instance, wanted: Assignment, *, failed: bool) -> NodeStatus:
    """What a node says next, on its way to its assignment."""
    status = node.status
    if status.generation != wanted.generation:
        status = NodeStatus(phase=Phase.PREPARING, generation=wanted.generation)
    elif failed:
        failure = Failure(code="WORKER_SETUP_FAILURE", message="it broke")
        status = msgspec.structs.replace(status, phase=Phase.FAILED, failure=failure)
    elif wanted.retiring:
        following = {Phase.READY: Phase.RETIRING, Phase.RETIRING: Phase.RETIRED}
        status = msgspec.structs.replace(status, phase=following.get(status.phase, Phase.RETIRED))
    elif node.role is not Role.WORKER:
        status = msgspec.structs.replace(status, phase=Phase.READY, master_url=f"spark://{node.instance_id}:7077")
    elif wanted.master_url:
        address = f"{node.instance_id}/{wanted.generation}:7078"
        status = msgspec.structs.replace(status, phase=Phase.READY, worker_address=address)
    return msgspec.structs.replace(status, assignment_version=wanted.version)
