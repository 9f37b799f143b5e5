"""Request bodies of the Clusters API, with its field names.

A field without a default is required; the API edge reports missing ones. Times are epoch milliseconds.
Source: databricks-sdk `service/compute.py`.
"""

from __future__ import annotations

from brickyard.domain.events import EventType
from brickyard.domain.spec import AutoScale, ClusterSpec, Wire
from brickyard.domain.states import (
    ClusterSource,
    GetEventsOrder,
    ListClustersSortByDirection,
    ListClustersSortByField,
    State,
)


class CloneCluster(Wire, frozen=True, kw_only=True):
    """The cluster whose libraries a new one copies."""

    source_cluster_id: str


class CreateCluster(ClusterSpec, frozen=True, kw_only=True):
    """A specification, and the fields that matter only while the cluster is created.

    `idempotency_token` (at most 64 characters): if an active cluster was created with the same token, it is returned instead.
    """

    clone_from: CloneCluster | None = None
    idempotency_token: str | None = None
    validate_only: bool | None = None  # ours: answers with a ClusterValidation, and creates nothing


class EditCluster(ClusterSpec, frozen=True, kw_only=True):
    """The whole new specification of a cluster: fields that are absent are reset to their defaults.

    `expected_spec` is ours: what `spec` of `get` said when the client began. If it says something else by now, the edit is
    refused.
    """

    cluster_id: str
    expected_spec: ClusterSpec | None = None
    validate_only: bool | None = None  # ours: answers with a ClusterValidation, and changes nothing


class UpdateCluster(Wire, frozen=True, kw_only=True):
    """A partial change. `update_mask` holds comma-separated field paths of `cluster` (dots for sub-fields, no indexes; `*` means
    every field); a field that is in the mask but not in `cluster` is cleared."""

    cluster_id: str
    update_mask: str
    cluster: ClusterSpec | None = None


class ClusterId(Wire, frozen=True, kw_only=True):
    """The only argument of get, delete, permanent-delete, pin and unpin."""

    cluster_id: str


class StartCluster(ClusterId, frozen=True, kw_only=True):
    """Starts a terminated cluster."""


class RestartCluster(ClusterId, frozen=True, kw_only=True):
    """Restarts a running cluster. `restart_user` is the user who asked for it, if that is not the caller."""

    restart_user: str | None = None


class ResizeCluster(ClusterId, frozen=True, kw_only=True):
    """The new size: a number of workers, or a range."""

    autoscale: AutoScale | None = None
    num_workers: int | None = None


class ChangeClusterOwner(ClusterId, frozen=True, kw_only=True):
    owner_username: str


class ListClustersFilterBy(Wire, frozen=True, kw_only=True):
    """All the given conditions must match; a list matches any of its values."""

    cluster_sources: list[ClusterSource] | None = None
    cluster_states: list[State] | None = None
    is_pinned: bool | None = None
    policy_id: str | None = None


class ListClustersSortBy(Wire, frozen=True, kw_only=True):
    direction: ListClustersSortByDirection | None = None
    field: ListClustersSortByField | None = None


class ListClusters(Wire, frozen=True, kw_only=True):
    """Which clusters to list, their order, and the page. `can_use_client` (JOBS or NOTEBOOKS) is from the 2.0 API."""

    filter_by: ListClustersFilterBy | None = None
    sort_by: ListClustersSortBy | None = None
    page_size: int | None = None
    page_token: str | None = None
    can_use_client: str | None = None


class GetEvents(ClusterId, frozen=True, kw_only=True):
    """Events of a cluster, newest first unless `order` is ASC. `limit`/`offset` is the older paging and `page_size`/`page_token`
    the newer one; both return a complete next request in `GetEventsResponse.next_page`."""

    end_time: int | None = None
    event_types: list[EventType] | None = None
    limit: int | None = None
    offset: int | None = None
    order: GetEventsOrder | None = None
    page_size: int | None = None
    page_token: str | None = None
    start_time: int | None = None
