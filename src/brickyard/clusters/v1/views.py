"""A cluster as the /v1/clusters dialect shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from brickyard.clusters.v1.ports import PortPlanner
from brickyard.domain.clock import rfc3339
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import NodeStatus
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.ports import PortRow
from brickyard.domain.v1.clusters import Operation, V1Cluster, V1ClusterCost, V1Network
from brickyard.plan import autoterminate
from brickyard.plan.attach import driver_instance
from brickyard.plan.starts import kind_of
from brickyard.plan.v1 import health
from brickyard.plan.v1.autoterminate import view
from brickyard.plan.v1.progress import operation_of, state_of
from brickyard.plan.v1.translate import configuration
from brickyard.store.tx import Tx

_COST = (InstanceState.LAUNCHED, InstanceState.REGISTERED)


class Viewer:
    """Shows clusters. `node_types`: those on offer, at the workspace's prices."""

    def __init__(self, *, node_types: Mapping[str, NodeType], currency: str, now: int, ports: PortPlanner) -> None:
        self._node_types = node_types
        self._currency = currency
        self._now = now
        self._ports = ports

    def one(self, tx: Tx, cluster: Cluster) -> V1Cluster:
        """A whole cluster, with an estimate while it starts."""
        return self._whole(tx, cluster, tx.instances.of_cluster(cluster.cluster_id), tx.ports.of_cluster(cluster.cluster_id))

    def created(self, tx: Tx, cluster: Cluster, *, with_ports: bool) -> V1Cluster:
        """The same of a cluster that this transaction has made: there is less to read."""
        return self._whole(tx, cluster, (), tx.ports.of_cluster(cluster.cluster_id) if with_ports else ())

    def _whole(self, tx: Tx, cluster: Cluster, nodes: Sequence[Instance], ports: Sequence[PortRow]) -> V1Cluster:
        spent = None
        if cluster.workbench.auto_terminate.max_cost:
            charges = tx.charges.between(0, self._now, cluster_id=cluster.cluster_id)
            spent = autoterminate.spent_of(charges, cluster, now=self._now)
        shown = self.view(cluster, nodes, ports, usual_ms=_usual_ms(tx, cluster))
        ends_at = autoterminate.deadlines(cluster, nodes, now=self._now, spent=spent)
        left = ends_at.seconds_left(self._now) if ends_at is not None else None
        cost = round(spent.amount, 6) if spent is not None else None
        ends = msgspec.structs.replace(shown.auto_terminate, remaining_seconds=left, cost_since_start=cost)
        return msgspec.structs.replace(shown, auto_terminate=ends)

    def operation(self, tx: Tx, cluster: Cluster) -> Operation | None:
        """The last operation, with an estimate while the cluster starts."""
        return operation_of(cluster, now=self._now, usual_ms=_usual_ms(tx, cluster))

    def view(
        self,
        cluster: Cluster,
        instances: Sequence[Instance],
        ports: Sequence[PortRow],
        *,
        usual_ms: int | None = None,
    ) -> V1Cluster:
        """The same of what is read already."""
        spec, ended = cluster.spec, cluster.terminated_ms if cluster.ended else 0
        return V1Cluster(
            id=cluster.cluster_id,
            name=spec.cluster_name or "",
            description=cluster.workbench.description,
            status=state_of(cluster),
            status_details=cluster.state_message,
            health_checks=health.checks(cluster, instances, ports),
            owner=cluster.creator_user_name,
            configuration=configuration(cluster, self._node_types),
            environment=spec.spark_env_vars or {},
            auto_terminate=view(spec, cluster.workbench.auto_terminate),
            network=_network(cluster, instances),
            port_mappings=self._ports.views(cluster, ports),
            proxy_url=self._ports.proxy_url(cluster.cluster_id),
            tags=spec.custom_tags or {},
            created_at=rfc3339(cluster.created_ms),
            started_at=rfc3339(cluster.last_restarted_ms) if cluster.up else None,
            stopped_at=rfc3339(ended) if ended else None,
            cost=V1ClusterCost(current_hourly_rate=self.rate(instances), total=None, currency=self._currency),
            operation=operation_of(cluster, now=self._now, usual_ms=usual_ms),
        )

    def rate(self, instances: Sequence[Instance]) -> float:
        """What these nodes cost an hour."""
        offered = (self._node_types.get(each.node_type_id) for each in instances if each.state in _COST)
        return round(sum(each.price_per_hour for each in offered if each is not None), 6)


def _network(cluster: Cluster, instances: Sequence[Instance]) -> V1Network:
    """As the driver's agent reports it: "isolated", perhaps with what is unreachable, or "shared: <why>"."""
    driver = driver_instance(cluster, instances)
    status = driver.current_status if driver is not None else NodeStatus()
    mode, _, details = status.network.partition(":")
    return V1Network(mode=mode, details=details.strip(), driver_address=status.host)


def _usual_ms(tx: Tx, cluster: Cluster) -> int | None:
    """How long starts of the cluster's kind usually take; None if it is up, or that is not known."""
    return None if cluster.up or cluster.ended else tx.start_times.usual_ms(kind_of(cluster))
