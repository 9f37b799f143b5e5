"""Defaults that make queries faster, by the size of a node. Pure. docs/spark-defaults.md gives each its reason.

They apply where the cluster's conf sets nothing, and none takes the place of a setting that users change while Spark runs.
"""

from __future__ import annotations

# A compiled stage takes about this much memory outside the heap, with what the JVM compiles of it.
STAGE_KB = 64
STAGES_SHARE = 0.03  # of a node's memory may hold compiled stages
FEWEST_STAGES, MOST_STAGES = 100, 4_000  # Spark's default is 100


def defaults(memory_mb: int) -> dict[str, str]:
    """Returns settings for a cluster whose executors' nodes have that much memory."""
    return {"spark.sql.codegen.cache.maxEntries": str(compiled_stages(memory_mb))}


def compiled_stages(memory_mb: int) -> int:
    """Returns how many compiled stages each JVM keeps. With Spark's default, a handful of queries that run in turn compile
    everything again each time: 22 queries of TPC-H are about 300 stages."""
    return max(FEWEST_STAGES, min(MOST_STAGES, int(memory_mb * 1024 * STAGES_SHARE / STAGE_KB)))
