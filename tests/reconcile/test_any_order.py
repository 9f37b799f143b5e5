"""Calls, machines and load in any order: what must hold always holds, and nothing is stuck in the end."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from brickyard.domain.cluster import Instance
from brickyard.domain.requests import (
    ClusterId,
    CreateCluster,
    EditCluster,
    ResizeCluster,
    RestartCluster,
    StartCluster,
    UpdateCluster,
)
from brickyard.domain.spec import AutoScale, AwsAttributes, AwsAvailability, ClusterSpec, NodeTypeFlexibility
from brickyard.domain.states import State
from brickyard.store.store import Store
from tests.reconcile.anyorder import ADMIN, RUNTIME, Steps
from tests.support.databases import empty_sqlite

ranges = st.tuples(st.integers(1, 3), st.integers(1, 4)).map(lambda pair: AutoScale(min_workers=pair[0], max_workers=sum(pair)))
sizes = st.one_of(
    st.integers(1, 4).map(lambda workers: {"num_workers": workers}),
    ranges.map(lambda scale: {"autoscale": scale}),
)
markets = st.sampled_from([None, AwsAttributes(availability=AwsAvailability.SPOT_WITH_FALLBACK, first_on_demand=1)])
flexible = st.sampled_from([None, NodeTypeFlexibility(alternate_node_type_ids=["large"])])
pick = st.integers(0, 10)


class AnyOrder(RuleBasedStateMachine):
    """A cluster's life."""

    @initialize(size=sizes, market=markets, alternates=flexible)
    def create(self, size: dict[str, object], market: AwsAttributes | None, alternates: NodeTypeFlexibility | None) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.store = Store.open(empty_sqlite(Path(self.place.name) / "test.db"))
        request = CreateCluster(
            spark_version=RUNTIME.key,
            node_type_id="small",
            autotermination_minutes=0,
            aws_attributes=market,
            worker_node_type_flexibility=alternates,
            **size,  # type: ignore[arg-type] # keyword arguments of a struct
        )
        self.steps = Steps(self.store, request)

    def node(self, number: int) -> Instance:
        nodes = sorted(self.steps.nodes, key=lambda node: node.instance_id)
        return nodes[number % len(nodes)]

    # -- calls -----------------------------------------------------------------------------------------------------------

    @rule()
    def start(self) -> None:
        self.steps.ask({State.TERMINATED}, self.steps.service.start(ADMIN, StartCluster(cluster_id=self.steps.cluster_id)))

    @rule()
    def restart(self) -> None:
        self.steps.ask({State.RUNNING}, self.steps.service.restart(ADMIN, RestartCluster(cluster_id=self.steps.cluster_id)))

    @rule()
    def terminate(self) -> None:
        self.steps.ask(set(State), self.steps.service.delete(ADMIN, ClusterId(cluster_id=self.steps.cluster_id)))

    @rule(size=sizes)
    def resize(self, size: dict[str, object]) -> None:
        request = ResizeCluster(cluster_id=self.steps.cluster_id, **size)  # type: ignore[arg-type] # as above
        self.steps.ask({State.RUNNING}, self.steps.service.resize(ADMIN, request))

    @rule(size=sizes, node_type_id=st.sampled_from(["small", "large"]))
    def edit(self, size: dict[str, object], node_type_id: str) -> None:
        request = EditCluster(
            cluster_id=self.steps.cluster_id,
            spark_version=RUNTIME.key,
            node_type_id=node_type_id,
            autotermination_minutes=0,
            **size,  # type: ignore[arg-type] # as above
        )
        self.steps.ask({State.RUNNING, State.TERMINATED}, self.steps.service.edit(ADMIN, request))

    @rule(size=sizes)
    def update(self, size: dict[str, object]) -> None:
        request = UpdateCluster(
            cluster_id=self.steps.cluster_id,
            update_mask=next(iter(size)),
            cluster=ClusterSpec(**size),  # type: ignore[arg-type] # as above
        )
        self.steps.ask({State.RUNNING, State.TERMINATED}, self.steps.service.update(ADMIN, request))

    # -- the world -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.steps.launches)
    @rule(number=pick, kind=st.sampled_from(["", "", "", "CapacityError", "TransientError", "QuotaError"]))
    def launched(self, number: int, kind: str) -> None:
        names = sorted(self.steps.launches)
        self.steps.answer_launch(names[number % len(names)], kind)

    @rule()
    def everything_works(self) -> None:
        for name in list(self.steps.launches):
            self.steps.answer_launch(name)
        for _ in range(3):
            for node in self.steps.nodes:
                self.steps.report(node)
            self.steps.look()

    @precondition(lambda self: self.steps.nodes)
    @rule(number=pick, failed=st.sampled_from([False, False, False, True]))
    def report(self, number: int, failed: bool) -> None:
        self.steps.report(self.node(number), failed=failed)

    @precondition(lambda self: self.steps.nodes)
    @rule(number=pick)
    def vanish(self, number: int) -> None:
        self.steps.vanish(self.node(number).instance_id)

    @rule()
    def observe(self) -> None:
        self.steps.observe()

    @rule(tasks=st.integers(0, 40))
    def give_tasks(self, tasks: int) -> None:
        self.steps.tasks = tasks

    @precondition(lambda self: self.steps.cluster.up)
    @rule(left=st.integers(0, 6))
    def burst_and_rest(self, left: int) -> None:
        """Much to do for a while, and then little for long."""
        self.steps.tasks = 40
        for _ in range(2):
            self.steps.look()
            self.steps.clock.advance(seconds=2)
            self.everything_works()
        self.steps.tasks = left
        self.steps.look()
        self.steps.clock.advance(seconds=30)

    @rule(seconds=st.sampled_from([1, 3, 30, 200]))
    def wait(self, seconds: int) -> None:
        self.steps.load()
        self.steps.clock.advance(seconds=seconds)

    @invariant()
    def a_pass_finds_everything_in_order(self) -> None:
        if hasattr(self, "steps"):
            self.steps.look()

    def teardown(self) -> None:
        if hasattr(self, "steps"):
            try:
                self.steps.heal()
            finally:
                self.store.close()
                self.place.cleanup()


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=30, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
