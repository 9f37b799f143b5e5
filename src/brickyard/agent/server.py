"""The agent's side of `domain/nodeops.py`: the requests that a server may make."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from brickyard.agent import files
from brickyard.agent.config import AgentConfig
from brickyard.agent.contexts import Contexts
from brickyard.agent.host import HostError, NodeHost
from brickyard.agent.http import Request, Response, failure
from brickyard.agent.logfiles import LogDirectory
from brickyard.domain import nodeops
from brickyard.domain.node import StatusReport
from brickyard.domain.redaction import Redactor

CALL_TIMEOUT_S = 30.0
MAX_TAIL = 4 << 20
_STATUSES = {"NOT_FOUND": 404, "DEAD": 409, "LIMIT": 409, "INVALID": 400, "GONE": 503, "TIMEOUT": 503}
_OWN_LOGS = ("agent.log", "node.log")


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
        redactor: Callable[[], Redactor],
        contexts: Callable[[], Contexts],
    ) -> None:
        self._config = config
        self._report = report
        self._host = host
        self._way = way
        self._stop = stop
        self._redactor = redactor
        self._contexts = contexts

    async def handle(self, request: Request) -> Response:
        """Serves one request whose token has been checked."""
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
        given = msgspec.json.decode(request.body, type=dict[str, Any]) if request.body else request.query
        found = nodeops.asked(request.method, request.path.rstrip("/"), given)
        if found is None:
            raise _Refused(404, "NOT_FOUND", f"there is no {request.method} {request.path}")
        op, asked = found
        if op is nodeops.STATUS:
            return Response(200, msgspec.json.encode(self._report()))
        if op is nodeops.STOP:
            self._stop(asked.reason or "the server asked for it")
            return Response(202, b"{}")
        if op is nodeops.LOGS:
            return Response(200, msgspec.json.encode(await asyncio.to_thread(self._logs, asked)))
        if op is nodeops.READ_LOG:
            return Response(200, msgspec.json.encode(await asyncio.to_thread(self._read_log, asked)))
        contexts = self._contexts()
        if isinstance(asked, nodeops.NewContext):
            contexts.made(asked.context_id, asked.user, asked.ticket)
        answer = await self._call(op.name, **self._meant_for_us(asked))
        if op.opens:  # a hostile node may name any port, but the socket leads only to ports of that same node
            answer["way"] = await self._way(_port(answer))
        elif isinstance(asked, nodeops.OfContext | nodeops.OfCommand):
            answer = contexts.redactor(asked.context_id).json(answer)
        if op is nodeops.CONTEXT_DESTROY:
            contexts.forget(asked.context_id)
        return Response(200, msgspec.json.encode(answer))

    def _meant_for_us(self, asked: msgspec.Struct) -> dict[str, Any]:
        """Returns the request's fields for the node host. Refuses fields that are too long or meant for a node of another
        generation."""
        fields = msgspec.structs.asdict(asked)
        fields.pop("ticket", None)  # nothing on the node may see it
        if len(fields.get("command", "")) > nodeops.MAX_COMMAND:
            raise _Refused(400, "INVALID", f"the command is longer than {nodeops.MAX_COMMAND >> 20} MiB")
        if fields.pop("generation", 0) not in (0, self._report().status.generation):
            raise _Refused(400, "INVALID", "this node is of another start of the cluster")
        return fields

    async def _call(self, op: str, **fields: Any) -> dict[str, Any]:
        host = self._host()
        if host is None:
            raise _Refused(503, "NO_NODE", "no node runs on this instance")
        return await host.call(op, timeout_s=CALL_TIMEOUT_S, **fields)

    def _check_generation(self, generation: int) -> None:
        if generation not in (0, self._report().status.generation):
            raise _Refused(404, "NOT_FOUND", f"this instance is not the node of generation {generation}")

    def _read_log(self, asked: nodeops.ReadLog) -> nodeops.LogPiece:
        self._check_generation(asked.generation)
        logs = LogDirectory(self._config.node_dir / "logs")
        try:
            piece = logs.read(asked.name, offset=asked.offset, position=asked.position, limit=asked.limit)
            return msgspec.structs.replace(piece, data=self._redactor().data(piece.data))
        except ValueError as error:
            raise _Refused(400, "INVALID", str(error)) from error
        except OSError as error:
            raise _Refused(404, "NOT_FOUND", f"there is no log {asked.name!r}") from error

    def _logs(self, asked: nodeops.ReadLogs) -> nodeops.Logs:
        self._check_generation(asked.generation)
        directory, logs = self._config.directory, self._config.node_dir / "logs"
        name = asked.name
        if not name:
            own = [(each, (directory / each).stat().st_size) for each in _OWN_LOGS if (directory / each).exists()]
            found = [nodeops.LogFile(name=each, size=size) for each, size in [*own, *files.list_files(logs)]]
            return nodeops.Logs(files=tuple(found))
        try:
            data = files.read_tail(directory if name in _OWN_LOGS else logs, name, min(asked.tail, MAX_TAIL))
        except ValueError as error:
            raise _Refused(400, "INVALID", str(error)) from error
        except OSError as error:
            raise _Refused(404, "NOT_FOUND", f"there is no log {name!r}") from error
        return nodeops.Logs(name=name, text=self._redactor().text(data.decode(errors="replace")))


def _port(answer: dict[str, Any]) -> int:
    port = answer.get("port")
    if not isinstance(port, int) or not 0 < port <= 65535:
        raise HostError("INTERNAL", "the node names no port")
    return port
