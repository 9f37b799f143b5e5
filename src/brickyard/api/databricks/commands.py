"""The command execution API (1.2): contexts and commands, with its camelCase names and its error format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.databricks.dialects import COMMANDS
from brickyard.api.edge.registry import Handler, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.errors import CommandError
from brickyard.domain.states import CommandStatus, ContextStatus, ResultType
from brickyard.services.caller import Caller

BODY_LIMIT = 10 * 1024 * 1024


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Every field is optional here, so that a missing one is reported with this API's own message."""


class CreateContext(_Wire, frozen=True, kw_only=True):
    cluster_id: str = ""
    language: str = ""


class ContextRef(_Wire, frozen=True, kw_only=True):
    cluster_id: str = ""
    context_id: str = ""


class Command(_Wire, frozen=True, kw_only=True):
    cluster_id: str = ""
    context_id: str = ""
    language: str = ""
    command: str = ""


class CommandRef(_Wire, frozen=True, kw_only=True):
    cluster_id: str = ""
    context_id: str = ""
    command_id: str = ""


class Created(_Wire, frozen=True, kw_only=True):
    id: str


class ContextStatusResponse(_Wire, frozen=True, kw_only=True):
    id: str
    status: ContextStatus
    message: str = ""  # why it is Error: our own field, which Databricks does not have


class Results(_Wire, frozen=True, kw_only=True):
    """The results of a command; `result_type` decides which fields are set (runtime/node/contexts/results.py)."""

    result_type: ResultType
    summary: str = ""
    cause: str = ""
    data: Any = None
    schema: list[dict[str, Any]] = []
    truncated: bool = False
    is_json_schema: bool = False
    file_name: str = ""
    file_names: list[str] = []
    pos: int = 0


class CommandStatusResponse(_Wire, frozen=True, kw_only=True):
    id: str
    status: CommandStatus
    results: Results | None = None


async def _create(ctx: ApiContext, caller: Caller, request: CreateContext) -> Created:
    return Created(id=await ctx.services.commands.create_context(caller, request.cluster_id, request.language))


async def _context_status(ctx: ApiContext, caller: Caller, request: ContextRef) -> bytes:
    return msgspec.json.encode(await ctx.services.commands.context_status(caller, request.cluster_id, request.context_id))


async def _destroy(ctx: ApiContext, caller: Caller, request: ContextRef) -> Created:
    await ctx.services.commands.destroy_context(caller, request.cluster_id, request.context_id)
    return Created(id=request.context_id)


async def _execute(ctx: ApiContext, caller: Caller, request: Command) -> Created:
    command = (request.cluster_id, request.context_id, request.language, request.command)
    return Created(id=await ctx.services.commands.execute(caller, *command))


async def _command_status(ctx: ApiContext, caller: Caller, request: CommandRef) -> bytes:
    ref = (request.cluster_id, request.context_id, request.command_id)
    return msgspec.json.encode(await ctx.services.commands.command_status(caller, *ref))


async def _cancel(ctx: ApiContext, caller: Caller, request: CommandRef) -> Created:
    await ctx.services.commands.cancel(caller, request.cluster_id, request.context_id, request.command_id)
    return Created(id=request.command_id)


def command_form(fields: Mapping[str, bytes]) -> dict[str, str]:
    """Converts a form, in which `command` is a file, to the request's fields."""
    try:
        return {name: value.decode() for name, value in fields.items()}
    except UnicodeDecodeError as error:
        raise CommandError("The form is not valid UTF-8. Encode the command as UTF-8.") from error


def _operation(
    name: str,
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    *,
    request: type[msgspec.Struct],
    response: type[msgspec.Struct],
    **options: Any,
) -> Operation:
    return Operation(
        name=name,
        method=method,
        paths=(f"/api/1.2/{path}",),
        handler=handler,
        request=request,
        response=response,
        summary=summary,
        needs=(Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, "cluster_id"),),
        dialect=COMMANDS,
        body_limit=BODY_LIMIT,
        errors=(403, 404, 500),
        **options,
    )


OPERATIONS: tuple[Operation, ...] = (
    _operation(
        "contexts.create",
        "POST",
        "contexts/create",
        _create,
        "Start an execution context",
        request=CreateContext,
        response=Created,
    ),
    _operation(
        "contexts.status",
        "GET",
        "contexts/status",
        _context_status,
        "State of a context",
        request=ContextRef,
        response=ContextStatusResponse,
    ),
    _operation("contexts.destroy", "POST", "contexts/destroy", _destroy, "End a context", request=ContextRef, response=Created),
    _operation(
        "commands.execute",
        "POST",
        "commands/execute",
        _execute,
        "Run a command",
        request=Command,
        response=Created,
        form=command_form,
    ),
    _operation(
        "commands.status",
        "GET",
        "commands/status",
        _command_status,
        "State and results",
        request=CommandRef,
        response=CommandStatusResponse,
    ),
    _operation("commands.cancel", "POST", "commands/cancel", _cancel, "Cancel a command", request=CommandRef, response=Created),
)
