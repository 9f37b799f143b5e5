"""Snapshots of clusters' workspace directories: the row, and requests and answers of the /v1/clusters dialect."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.strict import Pagination, Strict

_PREFIX = "snap-"


class ClusterConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The size of each node; `num_workers` nodes and the driver. With `autoscale` the number is the current one. `storage_gb`: of
    the workspace directory; null: it has no limit of its own."""

    gpu_type: str
    gpu_count: int
    cpu_cores: float
    memory_gb: float
    node_type_id: str
    num_workers: int
    runtime: str
    storage_gb: int | None = None


class SnapshotStatus(StrEnum):
    CREATING = "creating"
    AVAILABLE = "available"
    FAILED = "failed"


class SnapshotRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A snapshot, as stored. `owner`: the cluster's when the snapshot was taken, who keeps it when the cluster is gone.

    `tasked`: a task of the cluster takes it. `taken_ms`: when its last byte was read.
    """

    snapshot_id: str
    cluster_id: str
    owner: str
    user_name: str
    name: str
    created_ms: int
    configuration: ClusterConfiguration
    status: SnapshotStatus = SnapshotStatus.CREATING
    tasked: bool = False
    reason: str = ""
    taken_ms: int = 0
    size_bytes: int = 0
    stored_bytes: int = 0
    files: int = 0
    left_out: int = 0
    sha256: str = ""


def snapshot_id(cluster_id: str, word: str) -> str:
    """The id of a snapshot names its cluster: that decides who may see it."""
    return f"{_PREFIX}{cluster_id}-{word}"


def cluster_of(snapshot_id: str) -> str:
    """The cluster of a snapshot; "" if the id is not one of ours."""
    return snapshot_id.removeprefix(_PREFIX).rpartition("-")[0] if snapshot_id.startswith(_PREFIX) else ""


# -- requests --------------------------------------------------------------------------------------------------------


class CreateSnapshot(Strict, frozen=True, kw_only=True):
    cluster_id: str
    name: str | None = None


class ListSnapshots(Strict, frozen=True, kw_only=True):
    """Newest first."""

    cluster_id: str
    page: int = 1
    limit: int = 20


class SnapshotId(Strict, frozen=True, kw_only=True):
    snapshot_id: str

    @property
    def cluster_id(self) -> str:
        """The cluster whose snapshot it is."""
        return cluster_of(self.snapshot_id)


# -- answers ---------------------------------------------------------------------------------------------------------


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`size_bytes`: of the files; `stored_bytes`: what its chunks take, shared ones included. `sha256`: of its manifest, which
    names every content by its own SHA-256. `left_out`: how many sockets, pipes and devices there were, which are not in it."""

    id: str
    cluster_id: str
    name: str
    status: SnapshotStatus
    reason: str
    created_by: str
    created_at: str
    taken_at: str | None
    size_bytes: int
    stored_bytes: int
    files: int
    left_out: int
    sha256: str
    configuration: ClusterConfiguration


class SnapshotPage(msgspec.Struct, frozen=True, kw_only=True):
    snapshots: list[Snapshot]
    pagination: Pagination


class SnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: Snapshot


class SnapshotPageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: SnapshotPage


class DeletedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    deleted: bool = True


class DeletedSnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: DeletedSnapshot
