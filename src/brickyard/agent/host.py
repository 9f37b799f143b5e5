"""The agent's view of the node host: an isolated process that speaks JSON lines over its pipes (docs/dev/node.md).

Hostile code shares the host's namespace, so nothing it says is trusted: lines are bounded, every message is decoded into a type,
every text is cut, and malformed messages are dropped. It can lie only about its own cluster.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from brickyard.agent.contexts import Question
from brickyard.domain.background import BackgroundTasks
from brickyard.domain.node import Failure, Load, Phase
from brickyard.machine.children import SURVIVOR_S, Child

_decode_question = msgspec.json.Decoder(Question).decode


MAX_LINE = 16 << 20
MAX_TEXT = 2_000
MAX_TAIL = 16_000
MAX_WORKERS = 10_000
MAX_PORTS = 64
TAIL_LINES = 60
MAX_ASKED = 256
ANSWER_S = 60.0
GONE_S = 2.0
TERM_S = 3.0  # from SIGTERM to SIGKILL


class HostError(Exception):
    """The node host could not do an operation; `code` is a protocol code or a termination code. `log_tail`: the last lines of the
    log that tells why; "": the node host's own."""

    def __init__(self, code: str, message: str, *, log_tail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.log_tail = log_tail


class HostGone(HostError):
    """The node host has ended."""

    def __init__(self, message: str = "the node's processes have ended") -> None:
        super().__init__("GONE", message)


class _Error(msgspec.Struct):
    code: str
    message: str = ""


class _Reply(msgspec.Struct):
    id: int
    result: dict[str, Any] | None = None
    error: _Error | None = None


_decode_reply = msgspec.json.Decoder(_Reply).decode


class StatusEvent(msgspec.Struct, kw_only=True):
    """The fields of a `status` event; absent fields stay unchanged."""

    phase: Phase | msgspec.UnsetType = msgspec.UNSET
    message: str | msgspec.UnsetType = msgspec.UNSET
    failure: Failure | msgspec.UnsetType | None = msgspec.UNSET
    master_url: str | msgspec.UnsetType = msgspec.UNSET
    connect_port: int | msgspec.UnsetType = msgspec.UNSET
    spark_ports: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    worker_address: str | msgspec.UnsetType = msgspec.UNSET
    alive_workers: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    last_activity_ms: int | msgspec.UnsetType = msgspec.UNSET
    busy: bool | msgspec.UnsetType = msgspec.UNSET
    load: Load | msgspec.UnsetType = msgspec.UNSET
    cold_reason: str | msgspec.UnsetType = msgspec.UNSET

    def changes(self, redact: Callable[[str], str]) -> dict[str, Any]:
        """Returns the present fields, without secrets and cut to size, as keyword arguments for a new NodeStatus."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        found = {name: value for name, value in found.items() if value is not msgspec.UNSET}
        for name in ("message", "master_url", "worker_address", "cold_reason"):
            if name in found:
                found[name] = redact(found[name])[:MAX_TEXT]
        if "alive_workers" in found:
            found["alive_workers"] = tuple(worker[:300] for worker in found["alive_workers"][:MAX_WORKERS])
        if isinstance(load := found.get("load"), Load):
            found["load"] = msgspec.structs.replace(load, workers=load.workers[:MAX_WORKERS])
        if found.get("connect_port") is not None and not 0 <= found["connect_port"] <= 65535:
            del found["connect_port"]
        if "spark_ports" in found:
            found["spark_ports"] = tuple(port for port in found["spark_ports"][:MAX_PORTS] if 0 < port <= 65535)
        if isinstance(failure := found.get("failure"), Failure):
            found["failure"] = cut_failure(failure.code, redact(failure.message), redact(failure.log_tail))
        return found


_decode_status_event = msgspec.json.Decoder(StatusEvent).decode


class _CatalogQuestion(msgspec.Struct):
    """A question of Spark's catalog to the workspace's metastore."""

    ask: int
    request: msgspec.Raw


_decode_catalog_question = msgspec.json.Decoder(_CatalogQuestion).decode


class _Envelope(msgspec.Struct):
    id: int | msgspec.UnsetType = msgspec.UNSET
    event: str | msgspec.UnsetType = msgspec.UNSET
    line: str | msgspec.UnsetType = msgspec.UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def cut_failure(code: str, message: str, log_tail: str) -> Failure:
    """Returns a failure of bounded size with a well-formed code."""
    plain = code.replace("_", "").isalnum() and code.isascii() and code.isupper() and len(code) <= 64
    return Failure(code=code if plain else "DRIVER_UNEXPECTED_FAILURE", message=message[:MAX_TEXT], log_tail=log_tail[-MAX_TAIL:])


class HostListener(Protocol):
    """Hears a node host, on the event loop. An agent's is `node.Node`."""

    def redact(self, text: str) -> str:
        """Hides secrets in what the host says, except in its answers."""
        ...

    def host_reports(self, changes: dict[str, Any]) -> None:
        """It reports changes of the node's status."""
        ...

    def host_logs(self, line: str) -> None:
        """It has written a line to its log or to stderr."""
        ...

    def host_asks(self, host: NodeHost, question: Question) -> None:
        """A kernel asks for a secret."""
        ...

    async def host_asks_metastore(self, request: bytes) -> dict[str, Any]:
        """A driver asks for the workspace's tables."""
        ...

    def host_ended(self, host: NodeHost) -> None:
        """It has ended, whether it was asked to or not."""
        ...


class NodeHost:
    """One node host, from start to end."""

    def __init__(self, listener: HostListener) -> None:
        self._listener = listener
        self._asked = BackgroundTasks()  # questions to the metastore that are being answered
        self._child: Child | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last_id = 0
        self._said: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)
        self.exit_code: int | None = None

    async def start(self, command: Sequence[str], env: Mapping[str, str], *, fds: Sequence[int] = ()) -> None:
        """Starts the process, which inherits `fds`. Raises HostError."""
        try:
            self._child = child = await Child.start(command, env=env, fds=fds, longest=MAX_LINE, errors=self)
        except OSError as error:
            raise HostError("INTERNAL_ERROR", f"the node's processes cannot be started: {error}") from error
        reading = asyncio.create_task(self._read(child))
        self._tasks = [reading, asyncio.create_task(self._wait(child, reading))]

    @property
    def alive(self) -> bool:
        return self._child is not None and self.exit_code is None

    @property
    def pid(self) -> int:
        """The pid of the process above all other processes of the node; 0 if it is not alive."""
        return self._child.pid if self._child is not None and self.alive else 0

    @property
    def tail(self) -> str:
        """The last lines that it wrote to stderr or sent as log."""
        return "\n".join(self._said)

    async def call(self, op: str, *, timeout_s: float | None = None, **fields: Any) -> dict[str, Any]:
        """Performs one operation. Raises HostError; HostGone if the process has ended or ends meanwhile. With `timeout_s`
        None, the caller limits the time."""
        child = self._child
        if child is None or not self.alive:
            raise HostGone
        self._last_id += 1
        number = self._last_id
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            async with asyncio.timeout(timeout_s):
                await child.send({"id": number, "op": op, **fields})
                return await future
        except TimeoutError as error:
            raise HostError("TIMEOUT", f"the node did not answer {op} within {timeout_s:g} s") from error
        except ConnectionError as error:
            await self._ended(GONE_S)  # how it ended is known a moment later
            raise HostGone from error
        finally:
            self._waiting.pop(number, None)

    async def stop(self, *, grace_s: float) -> None:
        """Ends the process: gracefully if that takes at most `grace_s`, otherwise by force. Returns once it has ended."""
        if self.alive:
            with contextlib.suppress(HostError, TimeoutError):
                async with asyncio.timeout(grace_s + 0.5):
                    await self.call("stop", timeout_s=grace_s, grace_s=max(0.5, grace_s - 1))
                    await self._ended(None)
        await self.kill()

    async def kill(self) -> None:
        """Kills the process and everything that it started. Returns once it has ended."""
        if self._child is None:
            return
        await self._child.end(grace_s=TERM_S)  # it is the launcher, which ends the rest in every mode
        await self._ended(GONE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ended(self, patience_s: float | None) -> None:
        """Waits until the end of the process has been noticed and reported, or the patience is over."""
        await asyncio.wait(self._tasks[1:], timeout=patience_s)

    async def _wait(self, child: Child, reading: asyncio.Task[None]) -> None:
        code = await child.ended()
        await asyncio.wait([reading], timeout=SURVIVOR_S)
        self.exit_code = code
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(HostGone())
        self._listener.host_ended(self)

    async def _read(self, child: Child) -> None:
        while True:
            try:
                line = await child.line()
            except ValueError:  # longer than the limit; the buffered part is dropped
                self._say("a message from the node was too long and is dropped")
                continue
            if not line:
                return
            try:
                self._receive(line)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                self._say(f"an invalid message from the node is dropped: {error}")

    def _receive(self, line: bytes) -> None:
        envelope = _decode_envelope(line)
        if envelope.event == "status":
            self._listener.host_reports(_decode_status_event(line).changes(self._listener.redact))
        elif envelope.event == "ask":
            self._listener.host_asks(self, _decode_question(line))
        elif envelope.event == "metastore":
            self._ask_metastore(_decode_catalog_question(line))
        elif envelope.event == "log":
            self._say(envelope.line if isinstance(envelope.line, str) else "")
        elif envelope.id is not msgspec.UNSET:
            self._resolve(_decode_reply(line))

    def _resolve(self, reply: _Reply) -> None:
        future = self._waiting.get(reply.id)
        if future is None or future.done():
            return
        if reply.error is not None:
            future.set_exception(HostError(reply.error.code[:64], self._listener.redact(reply.error.message)[:MAX_TEXT]))
        else:
            future.set_result(reply.result or {})

    def _ask_metastore(self, question: _CatalogQuestion) -> None:
        if len(self._asked) < MAX_ASKED:
            self._asked.start(self._answer(question))
        else:
            self._say("too many questions to the metastore at a time: one is dropped")

    async def _answer(self, question: _CatalogQuestion) -> None:
        answer = await self._listener.host_asks_metastore(bytes(question.request))
        with contextlib.suppress(HostError):  # it has ended, or does not listen: nobody waits for the answer
            await self.call("metastore", timeout_s=ANSWER_S, ask=question.ask, answer=answer)

    def error_line(self, line: str) -> None:
        self._say(line)

    def _say(self, line: str) -> None:
        """Logs a message on one line, without control characters."""
        text = "".join(
            character if character.isprintable() or character == "\t" else "?"
            for character in self._listener.redact(line).rstrip()[:MAX_TEXT]
        )
        self._said.append(text)
        self._listener.host_logs(text)
