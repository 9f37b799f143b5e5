"""The Global Init Scripts API: 5 calls."""

from __future__ import annotations

from brickyard.api.edge.group import ADMIN, Group
from brickyard.api.edge.registry import Operation
from brickyard.domain import scripts
from brickyard.domain.caller import Caller
from brickyard.features.scripts.service import GlobalScriptService

_ALL = "/api/2.0/global-init-scripts"
_ONE = f"{_ALL}/{{script_id}}"


async def _create(
    global_scripts: GlobalScriptService, caller: Caller, request: scripts.CreateGlobalInitScript
) -> scripts.CreateGlobalInitScriptResponse:
    return scripts.CreateGlobalInitScriptResponse(script_id=await global_scripts.create(caller, request))


async def _get(
    global_scripts: GlobalScriptService, caller: Caller, request: scripts.GlobalInitScriptId
) -> scripts.GlobalInitScriptDetailsWithContent:
    return await global_scripts.get(caller, request.script_id)


async def _delete(global_scripts: GlobalScriptService, caller: Caller, request: scripts.GlobalInitScriptId) -> None:
    await global_scripts.delete(caller, request.script_id)


_SCRIPTS = Group("global_init_scripts", lambda ctx: ctx.services.global_scripts, "/api/2.0/global-init-scripts", needs=ADMIN)
OPERATIONS: tuple[Operation, ...] = (
    _SCRIPTS("POST", _create, "Create a script that runs on every node of every cluster", name="create"),
    _SCRIPTS("GET", GlobalScriptService.list, "All global init scripts, in order", name="list"),
    _SCRIPTS("GET /{script_id}", _get, "One global init script, with its content", name="get", errors=(404,)),
    _SCRIPTS("PATCH /{script_id}", GlobalScriptService.update, "Change a global init script", name="update", errors=(404,)),
    _SCRIPTS("DELETE /{script_id}", _delete, "Delete a global init script", name="delete", errors=(404,)),
)
