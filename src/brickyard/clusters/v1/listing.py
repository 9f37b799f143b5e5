"""Lists of clusters in the /v1/clusters dialect: filters, search, orders and numbered pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from brickyard.clusters.catalogue import Offers
from brickyard.clusters.v1.views import Viewer
from brickyard.domain.access import Visible
from brickyard.domain.cluster import RETENTION_MS, Cluster
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.queries import ClusterFilter, ClusterOrder, ClusterSort
from brickyard.domain.strict import Pagination
from brickyard.domain.v1.clusters import ListV1Clusters, SortBy, SortOrder, V1ClusterState
from brickyard.plan.v1.progress import state_of, states_of
from brickyard.plan.v1.translate import configuration, same_model
from brickyard.store.tx import Tx

MOST_LIMIT = 100
Matches = Callable[[Cluster], bool]


class Page(NamedTuple):
    """Which clusters a page shows, in order."""

    cluster_ids: Sequence[str]
    pagination: Pagination


def page(tx: Tx, request: ListV1Clusters, viewer: Viewer, *, visible: Visible, offers: Offers, now: int) -> Page:
    """One page of what the caller may see.

    The index gives ids in order of time or name. Rows are read for the page alone, unless the filter or the order needs all.
    """
    _check(request)
    states = states_of(request.status) if request.status is not None else ()
    which = ClusterFilter(states=states, visible=visible, ended_after_ms=now - RETENTION_MS)
    by_name = request.sort_by is SortBy.NAME
    sort = ClusterSort(by=ClusterOrder.NAME if by_name else ClusterOrder.CREATED, descending=request.sort_order is SortOrder.DESC)
    # PENDING is never shown, and no state matches: a filter without states would match all.
    ids = [] if request.status is not None and not states else [each.cluster_id for each in tx.listing.page(which, sort=sort)]
    matches, ordered = _filter(request, offers), request.sort_by not in (SortBy.CREATED_AT, SortBy.NAME)
    if matches or ordered:
        rows = tx.clusters.many(ids)
        found = [rows[each] for each in ids if each in rows and all(fits(rows[each]) for fits in matches)]
        if ordered:
            found.sort(key=_key(tx, request.sort_by, found, viewer, offers), reverse=request.sort_order is SortOrder.DESC)
        ids = [each.cluster_id for each in found]
    shown = ids[(request.page - 1) * request.limit : request.page * request.limit]
    pages = -(-len(ids) // request.limit)
    return Page(shown, Pagination(page=request.page, limit=request.limit, total=len(ids), total_pages=pages))


def _check(request: ListV1Clusters) -> None:
    if request.page < 1:
        raise InvalidParameterValue(f"field 'page': it is {request.page}; it must be at least 1.")
    if not 1 <= request.limit <= MOST_LIMIT:
        raise InvalidParameterValue(f"field 'limit': it is {request.limit}; it must be between 1 and {MOST_LIMIT}.")


def _filter(request: ListV1Clusters, offers: Offers) -> list[Matches]:
    """The conditions that need a cluster's row."""
    found: list[Matches] = []
    if request.status in (V1ClusterState.STOPPED, V1ClusterState.ERROR):
        found.append(lambda cluster: state_of(cluster) is request.status)
    if text := (request.search or "").casefold():
        found.append(lambda cluster: any(text in each.casefold() for each in _texts(cluster)))
    node_types = offers.node_types()
    if model := request.gpu_type:
        found.append(lambda cluster: same_model(model, configuration(cluster, node_types).gpu_type))
    if (least := request.min_gpu_count) is not None:
        found.append(lambda cluster: configuration(cluster, node_types).gpu_count >= least)
    if (most := request.max_gpu_count) is not None:
        found.append(lambda cluster: configuration(cluster, node_types).gpu_count <= most)
    if request.created_after:
        after = _time("created_after", request.created_after)
        found.append(lambda cluster: cluster.created_ms > after)
    if request.created_before:
        before = _time("created_before", request.created_before)
        found.append(lambda cluster: cluster.created_ms < before)
    return found


def _texts(cluster: Cluster) -> tuple[str, ...]:
    return cluster.cluster_id, cluster.spec.cluster_name or "", cluster.workbench.description


def _key(tx: Tx, by: SortBy, found: Sequence[Cluster], viewer: Viewer, offers: Offers) -> Callable[[Cluster], Any]:
    """The value of an order that no index has. Equal ones stay in the order of their creation."""
    if by is SortBy.STATUS:
        return lambda cluster: state_of(cluster).value
    if by is SortBy.GPU_COUNT:
        node_types = offers.node_types()
        return lambda cluster: configuration(cluster, node_types).gpu_count
    instances = tx.instances.of_clusters([each.cluster_id for each in found])
    return lambda cluster: viewer.rate(instances[cluster.cluster_id])


def _time(field: str, text: str) -> int:
    """Epoch ms of an RFC 3339 time. One without an offset is in UTC."""
    try:
        at = datetime.fromisoformat(text)
        return int((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise InvalidParameterValue(f"field '{field}': {text[:60]!r} is no RFC 3339 time, like 2026-03-01T08:00:00Z.") from error
