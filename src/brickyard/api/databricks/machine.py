"""The machines under the clusters, and the runtimes on this one. Specific to Brickyard."""

from __future__ import annotations

from brickyard.api.edge.group import ADMIN, Group
from brickyard.api.edge.registry import Operation
from brickyard.domain.caller import Caller
from brickyard.features.machine.service import MachineService
from brickyard.features.runtimes.service import RuntimeKey, RuntimeService


async def _install(runtimes: RuntimeService, caller: Caller, request: RuntimeKey) -> None:
    await runtimes.install(caller, request.key)


async def _remove(runtimes: RuntimeService, caller: Caller, request: RuntimeKey) -> None:
    await runtimes.remove(caller, request.key)


_MACHINE = Group("machine", lambda ctx: ctx.services.machine, "/api/2.1/machine")
_RUNTIMES = Group("runtimes", lambda ctx: ctx.services.runtimes, "/api/2.1/runtimes", needs=ADMIN)
OPERATIONS: tuple[Operation, ...] = (
    _MACHINE(
        "GET",
        MachineService.get,
        "The room that there is for nodes, and which cluster or pool has taken it",
        name="get",
        needs=ADMIN,
    ),
    _RUNTIMES(
        "GET",
        RuntimeService.list,
        "Which runtimes are installed on the server's machine, and how far installations are",
        name="list",
    ),
    _RUNTIMES("POST /install", _install, "Begin to install a runtime on the server's machine", errors=(404,)),
    _RUNTIMES(
        "POST /remove",
        _remove,
        "Remove a runtime, and those that share its environment, from the server's machine",
        errors=(404,),
    ),
)
