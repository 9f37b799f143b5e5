"""What the server may ask of an agent: `Authorization: Bearer <server token>`, JSON in and out.

| route | does |
|---|---|
| `GET /v1/status` | the StatusReport |
| `POST /v1/stop` `{"reason"}` | ends the node, then the agent: 202 at once |
| `POST /v1/contexts` `{"context_id", "language", "user", "generation"?}` | `context_create` of the node host of that generation |
| `GET`, `DELETE /v1/contexts/{id}` | `context_status`, `context_destroy` |
| `POST /v1/contexts/{id}/commands` `{"command_id", "language", "command"}` | `command_execute` |
| `GET /v1/contexts/{id}/commands/{id}` | `command_status` |
| `POST /v1/contexts/{id}/commands/{id}/cancel` | `command_cancel` |
| `POST /v1/connect` | `connect_open`: `{"port", "way"}` of Spark Connect on the node's address |
| `POST /v1/ui` | `ui_open`: `{"port", "key", "way"}` of Spark's web UI on the node's address |
| `GET /v1/attached` | `attached`: `{"contexts", "connect_sessions"}` |
| `GET /v1/logs` | `{"files": [{"name", "size"}]}` |
| `GET /v1/logs?name=&tail=BYTES` | `{"name", "text"}`: the end of a log of the node, or of agent.log or node.log |

`way`: a Unix socket that leads to the port of a node with a network of its own; "" where the port can be reached as it is.

Errors: `{"error": {"code", "message"}}` with 401 UNAUTHENTICATED, 404 NOT_FOUND, 409 DEAD or LIMIT, 400 INVALID, 503 NO_NODE
(no node host runs here) or TIMEOUT, 500 for anything else that the node host says.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from brickyard.agent import files
from brickyard.agent.config import AgentConfig
from brickyard.agent.host import HostError, NodeHost
from brickyard.agent.http import Request, Response, failure
from brickyard.domain.node import StatusReport

CALL_TIMEOUT_S = 30.0
MAX_COMMAND = 8 << 20
MAX_TAIL = 4 << 20
_STATUSES = {"NOT_FOUND": 404, "DEAD": 409, "LIMIT": 409, "INVALID": 400, "GONE": 503, "TIMEOUT": 503}
_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_PLAIN_OPS = {("POST", "connect"): "connect_open", ("POST", "ui"): "ui_open", ("GET", "attached"): "attached"}
_OWN_LOGS = ("agent.log", "node.log")


class _Stop(msgspec.Struct):
    reason: str = ""


class _NewContext(msgspec.Struct):
    context_id: str
    language: str
    user: str = ""
    generation: int = 0  # of the node that it is meant for; 0: any


class _NewCommand(msgspec.Struct):
    command_id: str
    language: str
    command: str


class _Refused(Exception):
    """The request cannot be served."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Routes:
    """The handler of the agent's HTTP server."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        report: Callable[[], StatusReport],
        host: Callable[[], NodeHost | None],
        way: Callable[[int], Awaitable[str]],
        stop: Callable[[str], None],
    ) -> None:
        self._config = config
        self._report = report
        self._host = host
        self._way = way
        self._stop = stop

    async def handle(self, request: Request) -> Response:
        """Serve one request whose token has been checked."""
        try:
            return await self._route(request)
        except _Refused as error:
            return failure(error.status, error.code, str(error))
        except msgspec.MsgspecError as error:
            return failure(400, "INVALID", str(error))
        except HostError as error:
            if error.code == "GONE":
                return failure(503, "NO_NODE", str(error))
            return failure(_STATUSES.get(error.code, 500), error.code, str(error))

    async def _route(self, request: Request) -> Response:
        match (request.method, *request.path.strip("/").split("/")):
            case ("GET", "v1", "status"):
                return Response(200, msgspec.json.encode(self._report()))
            case ("POST", "v1", "stop"):
                self._stop(msgspec.json.decode(request.body or b"{}", type=_Stop).reason or "the server asked for it")
                return Response(202, b"{}")
            case ("GET", "v1", "logs"):
                return await asyncio.to_thread(self._logs, request)
            case (method, "v1", name) if (method, name) in _PLAIN_OPS:
                answer = await self._call(_PLAIN_OPS[method, name])
                if method == "POST":  # the port is what a hostile node says: the way leads to a port of that very node
                    answer["way"] = await self._way(_port(answer))
                return Response(200, msgspec.json.encode(answer))
            case (_, "v1", "contexts", *rest):
                return Response(200, msgspec.json.encode(await self._context(request, rest)))
        raise _Refused(404, "NOT_FOUND", f"there is no {request.method} {request.path}")

    async def _context(self, request: Request, rest: list[str]) -> dict[str, Any]:
        if not all(_ID.fullmatch(part) for part in rest):
            raise _Refused(400, "INVALID", "that is not an id")
        match (request.method, *rest):
            case ("POST",):
                new = msgspec.json.decode(request.body, type=_NewContext)
                if new.generation not in (0, self._report().status.generation):
                    raise _Refused(400, "INVALID", "this node is of another start of the cluster")
                return await self._call("context_create", context_id=new.context_id, language=new.language, user=new.user)
            case ("GET", context_id):
                return await self._call("context_status", context_id=context_id)
            case ("DELETE", context_id):
                return await self._call("context_destroy", context_id=context_id)
            case ("POST", context_id, "commands"):
                command = msgspec.json.decode(request.body, type=_NewCommand)
                if len(command.command) > MAX_COMMAND:
                    raise _Refused(400, "INVALID", f"the command is longer than {MAX_COMMAND >> 20} MiB")
                return await self._call("command_execute", context_id=context_id, **msgspec.structs.asdict(command))
            case ("GET", context_id, "commands", command_id):
                return await self._call("command_status", context_id=context_id, command_id=command_id)
            case ("POST", context_id, "commands", command_id, "cancel"):
                return await self._call("command_cancel", context_id=context_id, command_id=command_id)
        raise _Refused(404, "NOT_FOUND", f"there is no {request.method} {request.path}")

    async def _call(self, op: str, **fields: Any) -> dict[str, Any]:
        host = self._host()
        if host is None:
            raise _Refused(503, "NO_NODE", "no node runs on this instance")
        return await host.call(op, timeout_s=CALL_TIMEOUT_S, **fields)

    def _logs(self, request: Request) -> Response:
        directory, logs = self._config.directory, self._config.node_dir / "logs"
        name = request.query.get("name", "")
        if not name:
            own = [(each, (directory / each).stat().st_size) for each in _OWN_LOGS if (directory / each).exists()]
            found = [{"name": each, "size": size} for each, size in [*own, *files.list_files(logs)]]
            return Response(200, msgspec.json.encode({"files": found}))
        tail = request.query.get("tail", "65536")
        if not tail.isdigit():
            raise _Refused(400, "INVALID", "tail is a number of bytes")
        try:
            data = files.read_tail(directory if name in _OWN_LOGS else logs, name, min(int(tail), MAX_TAIL))
        except ValueError as error:
            raise _Refused(400, "INVALID", str(error)) from error
        except OSError as error:
            raise _Refused(404, "NOT_FOUND", f"there is no log {name!r}") from error
        return Response(200, msgspec.json.encode({"name": name, "text": data.decode(errors="replace")}))


def _port(answer: dict[str, Any]) -> int:
    port = answer.get("port")
    if not isinstance(port, int) or not 0 < port <= 65535:
        raise HostError("INTERNAL", "the node names no port")
    return port
