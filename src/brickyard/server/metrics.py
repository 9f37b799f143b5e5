"""Metrics of the workspace itself, in addition to those that the loops and the API keep of their work."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from brickyard import __version__
from brickyard.domain.errors import DatabaseTrouble, RequestLimitExceeded
from brickyard.domain.pools import Pool, Standing
from brickyard.features.pools.service import pool_stats
from brickyard.nodes.samples import Samples
from brickyard.providers.fleet import Providers
from brickyard.reconcile.room import DiskRoom
from brickyard.server.looplag import Lag
from brickyard.server.sparkmetrics import families, shown
from brickyard.store.membership import Members
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class WorkspaceMetrics(Collector):
    """The servers, counts of clusters and instances by state, the contents of each pool, the remaining room, and what Spark
    does; read on demand."""

    def __init__(
        self,
        store: Store,
        providers: Providers,
        room: DiskRoom,
        members: Members,
        *,
        lags: Mapping[str, Lag],
        samples: Samples,
    ) -> None:
        """`lags`: for how long work of each kind has waited."""
        self._samples = samples
        self._spark: list[Metric] = []
        self._members = members
        self._lags = lags
        self._store = store
        self._providers = providers
        self._disk = room
        self._counts: list[Metric] = []

    async def refresh(self) -> None:
        """Updates the counts for the next `collect`. Call it on the event loop first."""
        drivers = self._samples.drivers()
        ours = shown([*drivers])
        newest = {each: sample for each in ours if (sample := self._samples.newest(drivers[each])) is not None}
        self._spark = families(newest, left_out=len(drivers) - len(ours))
        try:
            self._counts = _families(await self._store.read(_count))
        except (DatabaseTrouble, RequestLimitExceeded):
            self._counts = []

    def collect(self) -> list[Metric]:
        counts = self._counts
        up = GaugeMetricFamily("brickyard_database_up", "Whether the database can be used; without it the counts are missing")
        up.add_metric([], float(bool(counts)))
        build = InfoMetricFamily("brickyard_build", "Version of the server, and of the Python that it runs in")
        build.add_metric([], {"version": __version__, "python_version": platform.python_version()})
        servers = GaugeMetricFamily("brickyard_servers", "Live servers of the workspace", labels=["state"])
        stopping = [bool(each.stopping) for each in self._members.servers()]
        servers.add_metric(["serving"], stopping.count(False))
        servers.add_metric(["stopping"], stopping.count(True))
        lag = GaugeMetricFamily("brickyard_lag_seconds", "How long the oldest work has waited to begin", labels=["of"])
        for name, seconds in self._lags.items():
            lag.add_metric([name], seconds())
        return [build, up, servers, lag, *counts, *self._room(), *self._disk_room(), *self._spark]

    def _disk_room(self) -> list[Metric]:
        disk = self._disk.disk()
        found: list[Metric] = []
        for name, text, value in (
            ("brickyard_disk_size_bytes", "Size of the storage's disk", disk.total.size),
            ("brickyard_disk_free_bytes", "Free space on the storage's disk", disk.free.size),
            ("brickyard_disk_inodes", "Inodes of the storage's disk; 0 if it makes them as needed", disk.total.inodes),
            ("brickyard_disk_free_inodes", "Free inodes on the storage's disk", disk.free.inodes),
            ("brickyard_dbfs_bytes", "Space used by the workspace's files", self._disk.dbfs_used.size),
            ("brickyard_dbfs_limit_bytes", "Limit for the workspace's files", self._disk.dbfs_limit),
        ):
            family = GaugeMetricFamily(name, text)
            family.add_metric([], value)
            found.append(family)
        return found

    def _room(self) -> list[Metric]:
        """The room of each provider that knows it."""
        known = {provider.name: room for provider in self._providers if (room := provider.capacity()) is not None}
        found: list[Metric] = []
        for name, text, field, scale in (
            ("brickyard_capacity_cores", "Logical cores that a provider offers", "cores_total", 1),
            ("brickyard_free_cores", "Unallocated logical cores", "cores_left", 1),
            ("brickyard_capacity_memory_bytes", "Memory that a provider offers", "memory_mb_total", 2**20),
            ("brickyard_free_memory_bytes", "Unallocated memory", "memory_mb_left", 2**20),
        ):
            family = GaugeMetricFamily(name, text, labels=["provider"])
            for provider, room in known.items():
                family.add_metric([provider], getattr(room, field) * scale)
            found.append(family)
        return found if known else []


class _Counts(NamedTuple):
    clusters: Mapping[str, int]
    instances: Mapping[str, int]
    pools: Sequence[Pool]
    standings: Mapping[str, Mapping[Standing, int]]


def _count(tx: Tx) -> _Counts:
    return _Counts(tx.clusters.count_by_state(), tx.instances.count_by_state(), tx.pools.active(), tx.instances.standings())


def _families(found: _Counts) -> list[Metric]:
    families: list[Metric] = []
    for name, text, counts in (
        ("brickyard_clusters", "Clusters by public state", found.clusters),
        ("brickyard_instances", "Instances by lifecycle state", found.instances),
    ):
        family = GaugeMetricFamily(name, text, labels=["state"])
        for state, count in counts.items():
            family.add_metric([state], count)
        families.append(family)
    of_pools = GaugeMetricFamily(
        "brickyard_pool_instances", "Instances of a pool, by its stats", labels=["instance_pool_id", "count"]
    )
    for pool in found.pools:
        for name, number in msgspec.structs.asdict(pool_stats(found.standings.get(pool.instance_pool_id, {}))).items():
            of_pools.add_metric([pool.instance_pool_id, name.removesuffix("_count")], number)
    return [*families, of_pools]
