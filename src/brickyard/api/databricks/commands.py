"""The command execution API (1.2): contexts and commands, with its camelCase names and its error format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from brickyard.api.databricks.dialects import COMMANDS
from brickyard.api.edge.group import CAN_ATTACH, Facts, Group
from brickyard.api.edge.registry import Operation
from brickyard.clusters.attach.execution import CommandService
from brickyard.domain.caller import Caller
from brickyard.domain.errors import CommandError
from brickyard.domain.nodeops import CommandProgress, Widget
from brickyard.domain.states import CommandStatus, ContextStatus, ResultType


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
    widgets: dict[str, str] = {}  # the values that a person has chosen: our own field, which Databricks does not have


class CommandRef(_Wire, frozen=True, kw_only=True):
    cluster_id: str = ""
    context_id: str = ""
    command_id: str = ""


class Created(_Wire, frozen=True, kw_only=True):
    id: str


class OfCluster(_Wire, frozen=True, kw_only=True):
    cluster_id: str = ""


class Languages(_Wire, frozen=True, kw_only=True):
    """What `language` may be. Databricks has no such call."""

    languages: list[str]


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
    is_html: bool = False  # `data` is HTML: our own field, since Databricks' enumeration of result types has none
    file_name: str = ""
    file_names: list[str] = []
    pos: int = 0


class CommandStatusResponse(_Wire, frozen=True, kw_only=True):
    id: str
    status: CommandStatus
    results: Results | None = None
    progress: CommandProgress | None = None  # while it runs: our own field, which Databricks does not have
    widgets: list[Widget] | None = None  # of the context's notebook: our own field


async def _create(commands: CommandService, caller: Caller, request: CreateContext) -> Created:
    return Created(id=await commands.create_context(caller, request.cluster_id, request.language))


async def _languages(commands: CommandService, caller: Caller, request: OfCluster) -> Languages:
    return Languages(languages=await commands.languages(caller, request.cluster_id))


async def _context_status(commands: CommandService, caller: Caller, request: ContextRef) -> bytes:
    return msgspec.json.encode(await commands.context_status(caller, request.cluster_id, request.context_id))


async def _destroy(commands: CommandService, caller: Caller, request: ContextRef) -> Created:
    await commands.destroy_context(caller, request.cluster_id, request.context_id)
    return Created(id=request.context_id)


async def _execute(commands: CommandService, caller: Caller, request: Command) -> Created:
    command = (request.cluster_id, request.context_id, request.language, request.command)
    return Created(id=await commands.execute(caller, *command, widgets=request.widgets))


async def _command_status(commands: CommandService, caller: Caller, request: CommandRef) -> bytes:
    ref = (request.cluster_id, request.context_id, request.command_id)
    return msgspec.json.encode(await commands.command_status(caller, *ref))


async def _cancel(commands: CommandService, caller: Caller, request: CommandRef) -> Created:
    await commands.cancel(caller, request.cluster_id, request.context_id, request.command_id)
    return Created(id=request.command_id)


def command_form(fields: Mapping[str, bytes]) -> dict[str, str]:
    """Converts a form, in which `command` is a file, to the request's fields."""
    try:
        return {name: value.decode() for name, value in fields.items()}
    except UnicodeDecodeError as error:
        raise CommandError("The form is not valid UTF-8. Encode the command as UTF-8.") from error


_FACTS: Facts = {"needs": CAN_ATTACH, "dialect": COMMANDS, "errors": (403, 404, 500)}
_CONTEXTS = Group("contexts", lambda ctx: ctx.services.commands, "/api/1.2/contexts", **_FACTS)
_COMMANDS = Group("commands", lambda ctx: ctx.services.commands, "/api/1.2/commands", **_FACTS)
OPERATIONS: tuple[Operation, ...] = (
    _CONTEXTS("POST /create", _create, "Start an execution context"),
    _CONTEXTS("GET /languages", _languages, "Languages that contexts and commands may have"),
    _CONTEXTS("GET /status", _context_status, "State of a context", response=ContextStatusResponse),
    _CONTEXTS("POST /destroy", _destroy, "End a context"),
    _COMMANDS("POST /execute", _execute, "Run a command", form=command_form),
    _COMMANDS("GET /status", _command_status, "State and results", response=CommandStatusResponse),
    _COMMANDS("POST /cancel", _cancel, "Cancel a command"),
)
