"""The planner's settings."""

from __future__ import annotations

import msgspec

from brickyard.domain.node import PARQUET
from brickyard.plan.autoscale import Rules

DEFAULT_MAX_NODES = 1_000


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The planner's settings. Times are milliseconds."""

    launch_timeout_ms: int = 1_200_000
    retire_timeout_ms: int = 600_000  # a retiring worker is ended after this time even if it still runs tasks
    min_ready_ratio: float = 0.85  # a cluster may start with this share of its workers [databricks-sdk, `create`]
    pool_return_ms: int = 15_000  # how long a start waits for instances that are on their way back to its full pool
    pool_look_ms: int = 250  # how often it looks
    grow_backoff_ms: int = 30_000
    grow_backoff_max_ms: int = 600_000
    silence_ms: int = 60_000  # Spark that has not answered for this long hangs; its master judges workers by the same time
    give_up_ms: int = 300_000  # a driver that hangs for this long will not recover: no garbage collection takes that long
    max_worker_failures: int = 3  # consecutive worker failures before the planner pauses, or gives up a start
    launch_attempts: int = 5  # for errors that may pass
    launch_backoff_ms: int = 1_000
    launch_lease_ms: int = 15_000  # how long a launch call may take before another process may repeat it
    autoscale: Rules = Rules()
    spot_markets: frozenset[str] = frozenset()  # the names of providers that have one
    max_nodes: int = DEFAULT_MAX_NODES  # the most workers of one cluster, and instances of one pool
    nodes_per_pass: int = 100  # how many nodes one pass may change: everybody's writes wait for it
    photon: bool = True  # clusters that ask for Photon have the native engine; False: Spark's own
    currency: str = "USD"  # of the node types' prices
    provider: str = ""  # the name of the default provider
    table_format: str = PARQUET  # of tables that name none, where a cluster's runtime has it
    encrypting: frozenset[str] = frozenset()  # providers whose nodes are on different machines: Spark encrypts what they send
