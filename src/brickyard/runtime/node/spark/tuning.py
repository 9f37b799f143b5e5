"""Defaults that make queries faster, by the size of a node and its executor. Pure. docs/spark-defaults.md gives each its reason.

They apply where the cluster's conf sets nothing. None takes the place of a setting that users change while Spark runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..jvm.launch import DRIVER_SHARE, size_mb
from .sizes import executor_memory_mb, worker_size

if TYPE_CHECKING:
    from ..documents import AssignmentDocument

# A compiled stage takes about this much memory outside the heap, with what the JVM compiles of it.
STAGE_KB = 64
STAGES_SHARE = 0.03  # of a node's memory may hold compiled stages
FEWEST_STAGES, MOST_STAGES = 100, 4_000  # Spark's default is 100

# Heap for each task, in MiB -> how large a shuffle partition may be that is joined as a hash table, in MiB. The table cannot
# spill: with twice its size while it grows, and data that LZ4 has made ten times smaller, it must fit into half of the heap.
HASHED_MB = ((2_400, 64), (1_200, 32))
# Spark takes memory in pages, one or more for each sort and each hash table of a task, and fills each with zeros first. Its own
# are as large as a task's share allows, 32 MiB of 1.5 GiB, which short tasks never fill and the young generation has no room for.
# A task has 8,192 of them at most.
SMALLEST_PAGE_MB, LARGEST_PAGE_MB, PAGES = 4, 64, 1_024
PAGED_HEAP_MB = 512  # with less for each task, Spark's own pages are hardly larger
# Up to so many partitions a task writes a file for each and joins them at the end; for more it sorts and writes one. Spark's
# limit is 200, which is also its number of partitions for SQL: 200 files, each with its buffers, for every task that shuffles.
FILES_OF_SHUFFLE = 32
_PAGE, _FILES, _OFF_HEAP = "spark.buffer.pageSize", "spark.shuffle.sort.bypassMergeThreshold", "spark.memory.offHeap."
_HASHED = "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold"
_PARTITION = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


def defaults(assignment: AssignmentDocument, *, photon: bool = False) -> dict[str, str]:
    """Returns settings for the cluster's driver, and with it for its executors. `photon`: whether the cluster has the native
    engine, whose hash tables cannot spill either, and are of keys that can be more than ten times as large as in a shuffle."""
    asked: Mapping[str, str] = assignment.get("spark_conf") or {}
    _, memory_mb = worker_size(assignment)
    heap_mb = heap_per_task_mb(assignment)
    found = {"spark.sql.codegen.cache.maxEntries": str(compiled_stages(memory_mb)), _FILES: str(FILES_OF_SHUFFLE)}
    page = page_mb(heap_mb)
    if page and not any(key.startswith(_OFF_HEAP) for key in asked):  # pages are then of memory that the conf alone knows
        found[_PAGE] = f"{page}m"
    hashed = hashed_mb(heap_mb)
    if hashed and _PARTITION not in asked:  # Spark hashes only what may be as large as a partition
        found |= {_PARTITION: f"{hashed}m", _HASHED: "0" if photon else f"{hashed}m"}
    return found


def compiled_stages(memory_mb: int) -> int:
    """Returns how many compiled stages each JVM keeps. With Spark's default, a handful of queries that run in turn compile
    everything again each time: the 22 queries of TPC-H have more than a hundred stages."""
    return max(FEWEST_STAGES, min(MOST_STAGES, int(memory_mb * 1024 * STAGES_SHARE / STAGE_KB)))


def page_mb(heap_mb: int) -> int:
    """Returns how large a page of memory is, a power of two: a thousand of them hold a task's heap. 0: as Spark decides."""
    if heap_mb < PAGED_HEAP_MB:
        return 0
    page = SMALLEST_PAGE_MB
    while page < LARGEST_PAGE_MB and page * PAGES < heap_mb:
        page *= 2
    return page


def hashed_mb(heap_mb: int) -> int:
    """Returns up to which size a partition is joined by hashing, or 0 if joins are left to sorting, which spills. `heap_mb`: for
    each task."""
    return next((most for heap, most in HASHED_MB if heap_mb >= heap), 0)


def heap_per_task_mb(assignment: AssignmentDocument) -> int:
    """Returns the share of one task in the heap of the JVM that runs it; 0 if the conf does not say."""
    asked: Mapping[str, str] = assignment.get("spark_conf") or {}
    cores, memory_mb = worker_size(assignment)
    single = assignment["role"] == "single"
    named = asked.get("spark.driver.memory" if single else "spark.executor.memory")
    heap = size_mb(named) if named else int(memory_mb * DRIVER_SHARE) if single else executor_memory_mb(memory_mb)
    tasks = str(cores) if single else asked.get("spark.executor.cores", str(cores))
    return (heap or 0) // int(tasks) if tasks.isdigit() and int(tasks) else 0
