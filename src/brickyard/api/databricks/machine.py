"""The machines under the clusters, and the runtimes on this one. Specific to Brickyard."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Empty, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.services.caller import Caller
from brickyard.services.machine import MachineView
from brickyard.services.runtimes import RuntimeKey, RuntimeStandings

_ADMIN = (Need(Permission.ADMIN, ObjectKind.WORKSPACE),)


async def _machine(ctx: ApiContext, caller: Caller, request: Empty) -> MachineView:
    found: MachineView = await ctx.services.machine.get(caller)
    return found


async def _runtimes(ctx: ApiContext, caller: Caller, request: Empty) -> RuntimeStandings:
    found: RuntimeStandings = await ctx.services.runtimes.list(caller)
    return found


async def _install(ctx: ApiContext, caller: Caller, request: RuntimeKey) -> None:
    await ctx.services.runtimes.install(caller, request.key)


async def _remove(ctx: ApiContext, caller: Caller, request: RuntimeKey) -> None:
    await ctx.services.runtimes.remove(caller, request.key)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="machine.get",
        method="GET",
        paths=("/api/2.1/machine",),
        handler=_machine,
        response=MachineView,
        summary="The room that there is for nodes, and which cluster or pool has taken it",
        needs=_ADMIN,
    ),
    Operation(
        name="runtimes.list",
        method="GET",
        paths=("/api/2.1/runtimes",),
        handler=_runtimes,
        response=RuntimeStandings,
        summary="Which runtimes are installed on the server's machine, and how far installations are",
        needs=_ADMIN,
    ),
    Operation(
        name="runtimes.install",
        method="POST",
        paths=("/api/2.1/runtimes/install",),
        handler=_install,
        request=RuntimeKey,
        summary="Begin to install a runtime on the server's machine",
        needs=_ADMIN,
        errors=(404,),
    ),
    Operation(
        name="runtimes.remove",
        method="POST",
        paths=("/api/2.1/runtimes/remove",),
        handler=_remove,
        request=RuntimeKey,
        summary="Remove a runtime, and those that share its environment, from the server's machine",
        needs=_ADMIN,
        errors=(404,),
    ),
)
