"""The agent's side of `domain/nodeops.py`: the requests that a server may make."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from typing import Any

import msgspec

from brickyard.agent.config import AgentConfig
from brickyard.agent.contexts import Contexts
from brickyard.agent.host import HostError
from brickyard.agent.link.http import Request, Response, failure
from brickyard.agent.link.owner import LinkedAgent
from brickyard.agent.link.traces import CommandTraces
from brickyard.agent.networks import Networks
from brickyard.agent.node import Node
from brickyard.domain import nodeops
from brickyard.domain.decoding import converter
from brickyard.logs.logfiles import LogDirectory
from brickyard.machine import files
from brickyard.machine.frames import CHUNK, Streams
from brickyard.machine.listeners import is_strangers

_to_open_port = converter(nodeops.OpenPortOf, strict=False)
_to_withdrawn = converter(nodeops.Withdrawn)


_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


CALL_TIMEOUT_S = 30.0
MAX_TAIL = 4 << 20
CONNECT_S = 5.0  # to a port of the node
_STATUSES = {"NOT_FOUND": 404, "DEAD": 409, "LIMIT": 409, "INVALID": 400, "GONE": 503, "TIMEOUT": 503}
SESSION_OWN = "session_own"  # the node host's operation
_OWN_LOGS = ("agent.log", "node.log")


class _Refused(Exception):
    """The request cannot be served."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Routes:
    """The site of the agent's HTTP server."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        agent: LinkedAgent,
        node: Node,
        networks: Networks,
    ) -> None:
        self._config = config
        self._agent = agent
        self._node = node
        self._networks = networks
        self._traces = CommandTraces(self._call)

    def knows(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._config.server_token.encode())

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

    async def tunnel(self, request: Request) -> Streams | Response:
        """A connection to a port of this node, and of no other: the request names no host."""
        try:
            asked = _to_open_port(request.query)
            opened = await self._open_port(asked)
            return await self._connected(opened.way, asked.port)
        except _Refused as error:
            return failure(error.status, error.code, str(error))
        except msgspec.ValidationError as error:
            return failure(400, "INVALID", str(error))
        except HostError as error:
            return failure(503, "NO_NODE", str(error))

    async def _connected(self, way: str, port: int) -> Streams:
        """Through the way into the node's network. Without one: to the node's own address, to the loopback address at which many
        programs listen, or to the machine's; and only to a program of this node."""
        if way:
            with contextlib.suppress(OSError):
                return Streams(*await asyncio.open_unix_connection(way, limit=CHUNK))
        for place in () if way else dict.fromkeys((self._config.ports_host, "127.0.0.1", self._config.host)):
            with contextlib.suppress(OSError):
                async with asyncio.timeout(CONNECT_S):
                    inside = Streams(*await asyncio.open_connection(place, port, limit=CHUNK))
                if not await self._is_strangers(place, port):
                    return inside
                inside.writer.close()
        raise _Refused(404, "NOT_FOUND", f"no program of this node listens on port {port}")

    async def _is_strangers(self, place: str, port: int) -> bool:
        host = self._node.host
        if host is None or not host.pid:
            raise _Refused(503, "NO_NODE", "no node runs on this instance")
        return await asyncio.to_thread(is_strangers, place, port, top=host.pid, instance_id=self._config.instance_id)

    async def _route(self, request: Request) -> Response:
        given = _decode_object(request.body) if request.body else request.query
        found = nodeops.asked(request.method, request.path.rstrip("/"), given)
        if found is None:
            raise _Refused(404, "NOT_FOUND", f"there is no {request.method} {request.path}")
        op, asked = found
        if op is nodeops.STATUS:
            return Response(200, msgspec.json.encode(self._agent.report()))
        if op is nodeops.STOP:
            self._agent.leave(asked.reason or "the server asked for it")
            return Response(202, b"{}")
        if op is nodeops.LOGS:
            return Response(200, msgspec.json.encode(await asyncio.to_thread(self._logs, asked)))
        if op is nodeops.READ_LOG:
            return Response(200, msgspec.json.encode(await asyncio.to_thread(self._read_log, asked)))
        if op is nodeops.PORT_OPEN:
            return Response(200, msgspec.json.encode(await self._open_port(asked)))
        answer = await (self._session_used(asked) if op is nodeops.SESSION_USE else self._passed_on(op, asked))
        if op is nodeops.COMMAND_EXECUTE:
            self._traces.begun(asked.command_id, request.traceparent)
        elif op is nodeops.COMMAND_STATUS and (trace := await self._traces.of(asked, answer.get("status"))) is not None:
            answer["trace"] = trace
        return Response(200, msgspec.json.encode(answer))

    async def _session_used(self, asked: nodeops.UseSession) -> dict[str, Any]:
        fields = self._meant_for_us(asked)
        self._node.contexts.uses(asked.user, (asked.session_user, asked.session_id))
        self._node.contexts_changed()
        return await self._call(SESSION_OWN, owner=asked.user, **fields)  # Spark says it to the session's code

    async def _open_port(self, asked: nodeops.OpenPortOf) -> nodeops.OpenPort:
        self._check_generation(asked.generation)
        if self._node.host is None:
            raise _Refused(503, "NO_NODE", "no node runs on this instance")
        return nodeops.OpenPort(port=asked.port, way=await self._networks.way(asked.port))

    async def _passed_on(self, op: nodeops.NodeOp[Any, Any], asked: Any) -> dict[str, Any]:
        """What the node host answers."""
        contexts, fields = self._node.contexts, self._meant_for_us(asked)
        if isinstance(asked, nodeops.OfContext | nodeops.OfCommand | nodeops.NewCommand):
            if asked.user and not contexts.is_of(asked.context_id, asked.user):
                raise _Refused(404, "NOT_FOUND", nodeops.no_context(asked.context_id))
        elif isinstance(asked, nodeops.NewContext):
            return await self._new_context(contexts, asked, fields)
        elif isinstance(asked, nodeops.WithdrawContexts):
            fields["sessions"] = contexts.sessions_of(asked.user)
        try:
            answer = await self._call(op.name, **fields)
        except HostError as error:
            if op is nodeops.CONTEXT_DESTROY and error.code == "NOT_FOUND":  # the node host has forgotten it before
                contexts.forget(asked.context_id)
                self._node.contexts_changed()
            raise
        if op.opens:  # a hostile node may name any port, but the socket leads only to ports of that same node
            answer["way"] = await self._networks.way(_port(answer))
        elif isinstance(asked, nodeops.OfContext | nodeops.OfCommand):
            answer = contexts.redactor(asked.context_id).json(answer)
        if op is nodeops.CONTEXT_DESTROY:
            contexts.forget(asked.context_id)
            self._node.contexts_changed()
        elif op is nodeops.CONTEXTS_WITHDRAW:
            contexts.withdrawn(_to_withdrawn(answer).context_ids)
            contexts.ended(asked.user, fields["sessions"])
            self._node.contexts_changed()
        return answer

    async def _new_context(self, contexts: Contexts, asked: nodeops.NewContext, fields: dict[str, Any]) -> dict[str, Any]:
        new = contexts.made(asked.context_id, asked.user, asked.ticket)
        self._node.contexts_changed()  # first, so that the server hears of every context that exists
        try:
            return await self._call(nodeops.CONTEXT_CREATE.name, **fields)
        except HostError as error:
            if new and error.code in ("LIMIT", "INVALID"):  # after any other error it may exist
                contexts.forget(asked.context_id)
                self._node.contexts_changed()
            raise

    def _meant_for_us(self, asked: msgspec.Struct) -> dict[str, Any]:
        """Returns the request's fields for the node host. Refuses fields that are too long or meant for a node of another
        generation."""
        fields = msgspec.structs.asdict(asked)
        fields.pop("ticket", None)  # nothing on the node may see it
        if not isinstance(asked, nodeops.NewContext | nodeops.WithdrawContexts):
            fields.pop("user", None)  # it is for us to check
        if len(fields.get("command", "")) > nodeops.MAX_COMMAND:
            raise _Refused(400, "INVALID", f"the command is longer than {nodeops.MAX_COMMAND >> 20} MiB")
        if fields.pop("generation", 0) not in (0, self._node.status.generation):
            raise _Refused(400, "INVALID", "this node is of another start of the cluster")
        return fields

    async def _call(self, op: str, **fields: Any) -> dict[str, Any]:
        host = self._node.host
        if host is None:
            raise _Refused(503, "NO_NODE", "no node runs on this instance")
        return await host.call(op, timeout_s=CALL_TIMEOUT_S, **fields)

    def _check_generation(self, generation: int) -> None:
        if generation not in (0, self._node.status.generation):
            raise _Refused(404, "NOT_FOUND", f"this instance is not the node of generation {generation}")

    def _read_log(self, asked: nodeops.ReadLog) -> nodeops.LogPiece:
        self._check_generation(asked.generation)
        logs = LogDirectory(self._config.node_dir / "logs")
        try:
            piece = logs.read(asked.name, offset=asked.offset, position=asked.position, limit=asked.limit)
            return msgspec.structs.replace(piece, data=self._node.redactor.data(piece.data))
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
        return nodeops.Logs(name=name, text=self._node.redactor.text(data.decode(errors="replace")))


def _port(answer: dict[str, Any]) -> int:
    port = answer.get("port")
    if not isinstance(port, int) or not 0 < port <= 65535:
        raise HostError("INTERNAL", "the node gave no port")
    return port
