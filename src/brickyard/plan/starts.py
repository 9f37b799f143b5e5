"""How a cluster's desired state changes when it is to start again. Pure."""

from __future__ import annotations

import msgspec

from brickyard.domain.cluster import Cluster, GracefulStop, Target

MAX_KIND = 255
STARTING = "Finding instances for new nodes, acquiring more instances if necessary"


def kind_of(cluster: Cluster) -> str:
    """What the duration of a start depends on. Starts of one kind take about the same time."""
    spec = cluster.spec
    restart = cluster.start_ms != cluster.launch_started_ms
    task = cluster.workbench.task
    parts = (
        "restart" if restart else "start",
        spec.spark_version or "",
        spec.driver_node_type_id or "",
        "pool" if spec.instance_pool_id else "",
        str(cluster.num_workers),
        str(len(spec.init_scripts or ()) + len(cluster.libraries)),
        *(["restore" if task.restore else "save"] if task.number and task.incarnation == cluster.incarnation else []),
    )
    return "|".join(parts)[:MAX_KIND]


def begun_ms(cluster: Cluster) -> int:
    """Since when the start goes on: a restart waits first for what runs."""
    waited = cluster.workbench.graceful
    return max(cluster.launch_started_ms, waited.over_ms if waited.generation else 0)


def next_incarnation(cluster: Cluster, *, now: int, secret: str, connect_token: str, restarting: bool) -> Cluster:
    """The cluster, to be started (again) with new secrets."""
    return msgspec.structs.replace(
        cluster,
        target=Target.RUNNING,
        incarnation=cluster.incarnation + 1,
        restarting=restarting,
        ended=False,
        sized=True,
        secret=secret,
        connect_token=connect_token,
        libraries=tuple(each for each in cluster.libraries if not each.leaving),
        launch_started_ms=now,
        start_ms=cluster.start_ms if restarting else now,
        grow_after_ms=0,
        grow_failures=0,
        worker_failures=0,
        ready_workers=0,
        target_workers=0,  # with autoscale: begin with the minimum
        resize_cause=None,
        termination_reason=None,
        state_message=STARTING,
        workbench=msgspec.structs.replace(cluster.workbench, graceful=GracefulStop()),
    )
