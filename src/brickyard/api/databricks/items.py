"""`/api/items/databricks-cluster`: the routes of the cluster editor's specification, thin, on the services of the Clusters API.

An item is the caller's own record of a cluster, about which Brickyard knows nothing: `{id}` in a path is not looked at, and
`clusterId` names the cluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.databricks import clusters
from brickyard.api.edge.bodies import joined
from brickyard.api.edge.decode import RequestDecoder
from brickyard.api.edge.registry import Empty, Handler, Need, Operation
from brickyard.domain import requests as ask
from brickyard.domain import views as view
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.errors import InvalidParameterValue, InvalidState
from brickyard.domain.spec import Wire
from brickyard.domain.states import State
from brickyard.services.caller import Caller

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


async def _get(ctx: ApiContext, caller: Caller, request: Item) -> bytes:
    return await ctx.services.clusters.get(caller, request.cluster_id)


async def _state(ctx: ApiContext, caller: Caller, request: ItemAction, chunks: AsyncIterator[bytes]) -> None:
    body = await joined(chunks, _MOST_BODY)
    action = request.action or _action.body(body).action
    if action == "start":
        await _start(ctx, caller, request.cluster_id)
    elif action == "stop":
        await ctx.services.clusters.delete(caller, ask.ClusterId(cluster_id=request.cluster_id))
    elif action == "restart":
        await ctx.services.clusters.restart(caller, ask.RestartCluster(cluster_id=request.cluster_id))
    else:
        raise InvalidParameterValue(f"field 'action': {action[:100]!r} is none of start, stop and restart.")


async def _start(ctx: ApiContext, caller: Caller, cluster_id: str) -> None:
    """Starts it, unless it is started already: the Clusters API refuses that."""
    try:
        await ctx.services.clusters.start(caller, ask.StartCluster(cluster_id=cluster_id))
    except InvalidState:
        if _state_of(await ctx.services.clusters.get(caller, cluster_id)).state not in _STARTED:
            raise


async def _delete(ctx: ApiContext, caller: Caller, request: DeleteItem) -> None:
    if not request.permanent:
        raise InvalidParameterValue(
            "field 'permanent': must be true, since DELETE removes the cluster for good. To end it, POST /state with action=stop."
        )
    await ctx.services.clusters.permanent_delete(caller, ask.ClusterId(cluster_id=request.cluster_id))


async def _events(ctx: ApiContext, caller: Caller, request: ItemEvents) -> view.GetEventsResponse:
    return await ctx.services.clusters.events(caller, ask.GetEvents(cluster_id=request.cluster_id, limit=request.limit))


async def _options(ctx: ApiContext, caller: Caller, request: Empty) -> bytes:
    node_types, versions = await ctx.services.clusters.list_node_types(caller), await ctx.services.clusters.spark_versions(caller)
    return node_types.rstrip()[:-1] + b"," + versions.lstrip()[1:]  # two objects with one field each, encoded already


def _operation(
    name: str, method: str, path: str, handler: Handler, summary: str, *, request: type[Item], permission: Permission
) -> Operation:
    return Operation(
        name=f"items.{name}",
        method=method,
        paths=(f"{BASE}/{{id}}{path}", f"{BASE}{path}") if path else (f"{BASE}/{{id}}",),
        handler=handler,
        request=request,
        summary=summary,
        needs=(Need(permission, ObjectKind.CLUSTER, "cluster_id"),),
        streams=name == "state",
    )


_CLUSTERS = {each.name: each for each in clusters.OPERATIONS}
OPERATIONS: tuple[Operation, ...] = (
    replace(_CLUSTERS["clusters.list_all"], name="items.list", paths=(BASE,)),
    replace(_CLUSTERS["clusters.create"], name="items.create", paths=(BASE,)),
    replace(
        _CLUSTERS["clusters.list_node_types"],
        name="items.options",
        paths=(f"{BASE}/options",),
        handler=_options,
        response=ItemOptions,
        summary="Available node types and runtimes",
    ),
    replace(
        _operation("get", "GET", "", _get, "One cluster", request=Item, permission=Permission.CAN_ATTACH_TO),
        response=view.ClusterDetails,
    ),
    _operation(
        "state", "POST", "/state", _state, "Start, stop or restart", request=ItemAction, permission=Permission.CAN_RESTART
    ),
    _operation(
        "delete", "DELETE", "", _delete, "Remove a cluster for good", request=DeleteItem, permission=Permission.CAN_MANAGE
    ),
    replace(
        _operation("events", "GET", "/events", _events, "Its events", request=ItemEvents, permission=Permission.CAN_ATTACH_TO),
        response=view.GetEventsResponse,
    ),
)
