"""Builders with good defaults, for tests."""

from __future__ import annotations

import msgspec

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import NodeStatus, Phase, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.runtimes import Runtime
from brickyard.domain.spec import AutoScale, ClusterSpec
from brickyard.plan.assignments import assignment_for

SMALL = NodeType(node_type_id="small", num_cores=1.0, memory_mb=2_048, category="General Purpose")
SIZES = {"small": SMALL}
SPARK_4 = Runtime(
    key="17.3.x-scala2.13", name="17.3 LTS", spark_version="4.0.5", scala_version="2.13", python=">=3.9", java=(17,)
)
SPARK_3 = Runtime(
    key="16.4.x-scala2.12", name="16.4 LTS", spark_version="3.5.9", scala_version="2.12", python=">=3.9", java=(17,)
)
RUNTIMES = {runtime.key: runtime for runtime in (SPARK_4, SPARK_3)}
NOW = 1_790_000_000_000


def cluster(*, num_workers: int = 2, single: bool = False, autoscale: tuple[int, int] | None = None, **fields: object) -> Cluster:
    """A newly requested cluster; `autoscale`: (min, max) instead of a number of workers."""
    scale = AutoScale(min_workers=autoscale[0], max_workers=autoscale[1]) if autoscale else None
    spec = ClusterSpec(
        cluster_name="test",
        spark_version="17.3.x-scala2.13",
        node_type_id="small",
        driver_node_type_id="small",
        num_workers=None if scale else 0 if single else num_workers,
        autoscale=scale,
        is_single_node=single or None,
    )
    values: dict[str, object] = {
        "cluster_id": "0101-000000-testtest",
        "creator_user_name": "someone@example.com",
        "created_ms": NOW,
        "launch_started_ms": NOW,
        "start_ms": NOW,
        "spec": spec,
        "request": spec,
        "secret": "s",
        "connect_token": "c",
    }
    return Cluster(**{**values, **fields})  # type: ignore[arg-type] # keyword arguments of a struct


def up(of: Cluster, **fields: object) -> Cluster:
    """The same cluster, running."""
    values: dict[str, object] = {
        "ready_incarnation": of.incarnation,
        "ready_workers": of.num_workers,
        "last_restarted_ms": NOW,
        **fields,
    }
    return msgspec.structs.replace(of, **values)


def instance(of: Cluster, *, role: Role = Role.WORKER, number: int = 0, phase: Phase = Phase.READY, **fields: object) -> Instance:
    """A node of the cluster; registered and ready by default."""
    name = f"i-{role.value}-{number}"
    status = NodeStatus(
        phase=phase,
        generation=of.incarnation,
        assignment_version=1,
        master_url="spark://127.0.0.1:7077" if role is not Role.WORKER else "",
        worker_address=f"127.0.0.1:{9000 + number}" if role is Role.WORKER else "",
    )
    assignment = assignment_for(of, role=role, node_type_id="small", sizes=SIZES)
    if role is Role.WORKER:
        assignment = msgspec.structs.replace(assignment, master_url="spark://127.0.0.1:7077")
    made = Instance(
        instance_id=name,
        node_id=name,
        cluster_id=of.cluster_id,
        role=role,
        generation=of.incarnation,
        node_type_id="small",
        state=InstanceState.REGISTERED,
        created_ms=NOW + number,
        launched_ms=NOW,
        ready_ms=NOW if phase is Phase.READY else 0,
        registered_ms=NOW,
        assignment=assignment,
        status=status,
    )
    return msgspec.structs.replace(made, **fields)


def nodes(of: Cluster, workers: int, *, phase: Phase = Phase.READY) -> list[Instance]:
    """A driver and its workers, all known to the master."""
    made = [instance(of, number=number, phase=phase) for number in range(workers)]
    driver = instance(of, role=Role.DRIVER, phase=phase)
    known = tuple(worker.status.worker_address for worker in made)
    return [msgspec.structs.replace(driver, status=msgspec.structs.replace(driver.status, alive_workers=known)), *made]
