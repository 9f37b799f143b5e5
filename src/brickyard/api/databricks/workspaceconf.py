"""The workspace-conf API: settings by name, as text."""

from __future__ import annotations

import msgspec

from brickyard.api.edge.group import ADMIN, Group
from brickyard.api.edge.registry import Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.sources import UNKNOWN
from brickyard.features.workspaceconf.service import WorkspaceConfService


class GetWorkspaceConf(msgspec.Struct, frozen=True, kw_only=True):
    """`keys`: names of settings, comma-separated."""

    keys: str


class SetWorkspaceConf(msgspec.Struct, frozen=True, kw_only=True):
    """`settings` is the whole body: names of settings, and what they are to be."""

    settings: dict[str, str | bool | int]
    source: str = UNKNOWN


async def _get(settings: WorkspaceConfService, caller: Caller, request: GetWorkspaceConf) -> bytes:
    keys = [key.strip() for key in request.keys.split(",") if key.strip()]
    if not keys:
        raise InvalidParameterValue("keys is empty. Name at least one setting, such as enableIpAccessLists.")
    return msgspec.json.encode(await settings.get(caller, keys))


async def _set(settings: WorkspaceConfService, caller: Caller, request: SetWorkspaceConf) -> None:
    await settings.change(caller, request.settings, source=request.source)


_CONF = Group(
    "workspace_conf",
    lambda ctx: ctx.services.workspace_conf,
    "/api/2.0/workspace-conf",
    "/api/2.0/preview/workspace-conf",
    needs=ADMIN,
)
OPERATIONS: tuple[Operation, ...] = (
    _CONF("GET", _get, "Settings of the workspace", name="get"),
    _CONF("PATCH", _set, "Change settings of the workspace", name="update", document="settings", with_source=True),
)
