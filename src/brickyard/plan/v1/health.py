"""How a running cluster is, out of what its nodes have reported. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.node import NodeStatus, Role
from brickyard.domain.ports import PortRow
from brickyard.domain.v1.details import HealthCheck, HealthStatus
from brickyard.plan.attach import driver_instance

GIB = 2**30


def checks(cluster: Cluster, nodes: Sequence[Instance], ports: Sequence[PortRow]) -> list[HealthCheck]:
    """The checks of a cluster that runs; of another one there is nothing to check. `ports`: all of its mappings."""
    if not cluster.up:
        return []
    driver = driver_instance(cluster, nodes)
    if driver is None:
        return [_check("driver", "The driver's node is gone or does not report.")]
    found = [_check("driver", driver.lost), _spark(driver)]
    if cluster.num_workers:
        found.append(_workers(cluster, driver, nodes))
    found.append(_disk([driver, *(each for each in nodes if each.role is Role.WORKER and each.live)]))
    if faults := [f"{row.mapping.external_port}: {row.fault}" for row in ports if row.mapping.external_port and row.fault]:
        found.append(_check("ports", "; ".join(faults)))
    elif ports:
        found.append(_check("ports", ""))
    return found


def _spark(driver: Instance) -> HealthCheck:
    silent = driver.current_status.silent_since_ms
    return _check("spark", "Spark on the driver does not answer, likely because it collects garbage." if silent else "")


def _workers(cluster: Cluster, driver: Instance, nodes: Sequence[Instance]) -> HealthCheck:
    """Those that the driver's Spark has and that work for this start."""
    alive = set(driver.current_status.alive_workers)
    here = [
        each
        for each in nodes
        if each.role is Role.WORKER and each.generation == cluster.incarnation and each.current_status.worker_address in alive
    ]
    wanted = cluster.num_workers
    return _check("workers", "" if len(here) >= wanted else f"{len(here)} of {wanted} workers are there.")


def _disk(nodes: Sequence[Instance]) -> HealthCheck:
    """A node reports its disk once its files take most of what they may."""
    full = [f"{each.instance_id}: {taken}" for each in nodes if (taken := _most_of_disk(each.current_status))]
    return _check("disk", f"The files of a node take most of what they may: {', '.join(full)}." if full else "")


def _most_of_disk(status: NodeStatus) -> str:
    if status.disk_limit:
        return f"{status.disk_used / GIB:.1f} of {status.disk_limit / GIB:.1f} GiB"
    return f"{status.files_used:,} of {status.files_limit:,} files" if status.files_limit else ""


def _check(name: str, fault: str) -> HealthCheck:
    return HealthCheck(name=name, status=HealthStatus.UNHEALTHY if fault else HealthStatus.HEALTHY, message=fault)
