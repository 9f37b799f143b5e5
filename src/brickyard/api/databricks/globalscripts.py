"""The Global Init Scripts API: 5 calls."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Empty, Handler, Need, Operation
from brickyard.domain import scripts
from brickyard.domain.access import ObjectKind, Permission
from brickyard.services.caller import Caller

_ALL = "/api/2.0/global-init-scripts"
_ONE = f"{_ALL}/{{script_id}}"


async def _create(
    ctx: ApiContext, caller: Caller, request: scripts.CreateGlobalInitScript
) -> scripts.CreateGlobalInitScriptResponse:
    return scripts.CreateGlobalInitScriptResponse(script_id=await ctx.services.global_scripts.create(caller, request))


async def _list(ctx: ApiContext, caller: Caller, request: Empty) -> scripts.ListGlobalInitScriptsResponse:
    return await ctx.services.global_scripts.list(caller)


async def _get(
    ctx: ApiContext, caller: Caller, request: scripts.GlobalInitScriptId
) -> scripts.GlobalInitScriptDetailsWithContent:
    return await ctx.services.global_scripts.get(caller, request.script_id)


async def _update(ctx: ApiContext, caller: Caller, request: scripts.UpdateGlobalInitScript) -> None:
    await ctx.services.global_scripts.update(caller, request)


async def _delete(ctx: ApiContext, caller: Caller, request: scripts.GlobalInitScriptId) -> None:
    await ctx.services.global_scripts.delete(caller, request.script_id)


def _operation(
    verb: str, method: str, handler: Handler, summary: str, *, request: type = Empty, response: type | None = None
) -> Operation:
    one = verb in ("get", "update", "delete")
    return Operation(
        name=f"global_init_scripts.{verb}",
        method=method,
        paths=(_ONE if one else _ALL,),
        handler=handler,
        request=request,
        response=response,
        summary=summary,
        needs=(Need(Permission.ADMIN, ObjectKind.WORKSPACE),),
        errors=(404,) if one else (),
    )


OPERATIONS: tuple[Operation, ...] = (
    _operation(
        "create",
        "POST",
        _create,
        "Create a script that runs on every node of every cluster",
        request=scripts.CreateGlobalInitScript,
        response=scripts.CreateGlobalInitScriptResponse,
    ),
    _operation("list", "GET", _list, "All global init scripts, in order", response=scripts.ListGlobalInitScriptsResponse),
    _operation(
        "get",
        "GET",
        _get,
        "One global init script, with its content",
        request=scripts.GlobalInitScriptId,
        response=scripts.GlobalInitScriptDetailsWithContent,
    ),
    _operation("update", "PATCH", _update, "Change a global init script", request=scripts.UpdateGlobalInitScript),
    _operation("delete", "DELETE", _delete, "Delete a global init script", request=scripts.GlobalInitScriptId),
)
