"""Changes of clusters, policies, pools and runs as server-sent events. Ours: the web pages of Databricks poll instead."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from brickyard.api.edge.group import Group, on_cluster
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.api.edge.sse import CONTENT_TYPE, ServerEvent, event_stream
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.changes.service import WATCHED, Changes, Watcher


class WatchChanges(msgspec.Struct, frozen=True, kw_only=True):
    """`kinds`: with commas between them; empty: all."""

    kinds: str = ""
    last_event_id: str = ""


class ChangedObject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: ObjectKind
    id: str
    version: int
    deleted: bool = False  # no call finds it any more


async def _watch(changes: Changes, caller: Caller, request: WatchChanges) -> Stream:
    watcher = await changes.watch(caller, kinds=_kinds(request.kinds), after=request.last_event_id)
    return event_stream(_events(watcher), source=watcher)


def _kinds(text: str) -> tuple[ObjectKind, ...]:
    wanted = text.split(",") if text else WATCHED
    if unknown := sorted(set(wanted) - set(WATCHED)):
        known = ", ".join(WATCHED)
        raise InvalidParameterValue(f"kinds has {', '.join(unknown)}; it must be some of {known}, with commas between them.")
    return tuple(ObjectKind(each) for each in wanted)


async def _events(watcher: Watcher) -> AsyncIterator[ServerEvent | None]:
    async for change in watcher.changes():
        if change is None:
            yield None
        elif change.objects is None:
            yield ServerEvent(change.position, "reset", "{}")
        else:
            objects = [
                ChangedObject(kind=key.kind, id=key.id, version=version, deleted=key in change.deleted)
                for key, version in change.objects.items()
            ]
            yield ServerEvent(change.position, "changed", msgspec.json.encode({"objects": objects}).decode())


_WORKSPACE = Group("workspace", lambda ctx: ctx.services.changes, "/api/2.1")
OPERATIONS: tuple[Operation, ...] = (
    _WORKSPACE(
        "GET /changes",
        _watch,
        "Which clusters, policies, pools and runs change, as server-sent events, until the client closes the connection",
        needs=(
            on_cluster(Permission.CAN_ATTACH_TO, EVERY),
            Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, EVERY),
            Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, EVERY),
            Need(Permission.CAN_VIEW, ObjectKind.RUN, EVERY),
        ),
        content_type=CONTENT_TYPE,
        from_headers={"last-event-id": "last_event_id"},
        errors=(503,),
    ),
)
