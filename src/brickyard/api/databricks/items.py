"""`/api/items/databricks-cluster`: the routes of the cluster editor's specification, thin, on the services of the Clusters API.

An item is the caller's own record of a cluster, about which Brickyard knows nothing: `{id}` in a path is not looked at, and
`clusterId` names the cluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec

from brickyard.api.databricks.clusters import OPERATIONS as OF_CLUSTERS
from brickyard.api.databricks.dialects import CLUSTERS
from brickyard.api.edge.bodies import joined
from brickyard.api.edge.decode import RequestDecoder
from brickyard.api.edge.group import CAN_ATTACH, CAN_MANAGE, CAN_RESTART, IN_WORKSPACE, Group
from brickyard.api.edge.registry import Operation
from brickyard.clusters import ClusterService
from brickyard.domain import requests as ask
from brickyard.domain import views as view
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue, InvalidState
from brickyard.domain.spec import Wire
from brickyard.domain.states import State

BASE = "/api/items/databricks-cluster"
_MOST_BODY = 64 * 1024  # bytes


class Item(Wire, frozen=True, kw_only=True):
    """`id` is the caller's own."""

    cluster_id: str = msgspec.field(name="clusterId")
    id: str = ""


class DeleteItem(Item, frozen=True, kw_only=True):
    """`permanent` must be true."""

    permanent: bool = False


class ItemEvents(Item, frozen=True, kw_only=True):
    """The newest `limit` events."""

    limit: int | None = None


class ItemAction(Item, frozen=True, kw_only=True):
    """`action` is start, stop or restart; it may be in a JSON body instead."""

    action: str = ""


class _Action(msgspec.Struct, frozen=True):
    action: str


class ItemOptions(Wire, frozen=True, kw_only=True):
    """What a cluster can be made of."""

    node_types: list[view.NodeTypeView]
    versions: list[view.SparkVersion]


class _Shown(msgspec.Struct, frozen=True):
    state: State


_STARTED = (State.PENDING, State.RUNNING, State.RESTARTING, State.RESIZING)
_action = RequestDecoder(_Action)
_state_of = msgspec.json.Decoder(_Shown).decode


async def _get(clusters: ClusterService, caller: Caller, request: Item) -> bytes:
    return await clusters.get(caller, request.cluster_id)


async def _state(clusters: ClusterService, caller: Caller, request: ItemAction, chunks: AsyncIterator[bytes]) -> None:
    body = await joined(chunks, _MOST_BODY)
    action = request.action or _action.body(body).action
    if action == "start":
        await _start(clusters, caller, request.cluster_id)
    elif action == "stop":
        await clusters.delete(caller, ask.ClusterId(cluster_id=request.cluster_id))
    elif action == "restart":
        await clusters.restart(caller, ask.RestartCluster(cluster_id=request.cluster_id))
    else:
        raise InvalidParameterValue(f"field 'action': {action[:100]!r} is none of start, stop and restart.")


async def _start(clusters: ClusterService, caller: Caller, cluster_id: str) -> None:
    """Starts it, unless it is started already: the Clusters API refuses that."""
    try:
        await clusters.start(caller, ask.StartCluster(cluster_id=cluster_id))
    except InvalidState:
        if _state_of(await clusters.get(caller, cluster_id)).state not in _STARTED:
            raise


async def _delete(clusters: ClusterService, caller: Caller, request: DeleteItem) -> None:
    if not request.permanent:
        raise InvalidParameterValue(
            "field 'permanent': must be true, since DELETE removes the cluster. To end it, POST /state with action=stop."
        )
    await clusters.permanent_delete(caller, ask.ClusterId(cluster_id=request.cluster_id))


async def _events(clusters: ClusterService, caller: Caller, request: ItemEvents) -> view.GetEventsResponse:
    return await clusters.events(caller, ask.GetEvents(cluster_id=request.cluster_id, limit=request.limit))


async def _options(clusters: ClusterService, caller: Caller) -> bytes:
    node_types, versions = await clusters.list_node_types(caller), await clusters.spark_versions(caller)
    return node_types.rstrip()[:-1] + b"," + versions.lstrip()[1:]  # two objects with one field each, encoded already


_ITEMS = Group("items", lambda ctx: ctx.services.clusters, BASE, dialect=CLUSTERS)
_ITEM = Group("items", lambda ctx: ctx.services.clusters, f"{BASE}/{{id}}")
_PARTS = Group("items", lambda ctx: ctx.services.clusters, f"{BASE}/{{id}}", BASE)
_CLUSTERS = {each.name: each for each in OF_CLUSTERS}
OPERATIONS: tuple[Operation, ...] = (
    replace(_CLUSTERS["clusters.list_all"], name="items.list", paths=(BASE,)),
    replace(_CLUSTERS["clusters.create"], name="items.create", paths=(BASE,)),
    _ITEMS("GET /options", _options, "Available node types and runtimes", needs=IN_WORKSPACE, response=ItemOptions),
    _ITEM("GET", _get, "One cluster", name="get", needs=CAN_ATTACH, response=view.ClusterDetails),
    _PARTS("POST /state", _state, "Start, stop or restart", needs=CAN_RESTART),
    _ITEM("DELETE", _delete, "Permanently delete a cluster", name="delete", needs=CAN_MANAGE),
    _PARTS("GET /events", _events, "Its events", needs=CAN_ATTACH),
)
