"""Opens ways to ports of nodes on other machines, and keeps the process that carries their bytes alive."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import structlog

from brickyard.domain.cluster import Instance
from brickyard.domain.endpoints import parse
from brickyard.domain.nodeops import AgentUnreachable
from brickyard.nodes.tokens import InstanceTokens
from brickyard.nodes.tunnels.doors import LINE, Answer, Door, Told

_decode_answer = msgspec.json.Decoder(Answer).decode


ANSWER_S = 10.0
AGAIN_S = 1.0  # before a process that has ended is started again
MOST_DOORS = 4_096
_ALWAYS = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")

log = structlog.get_logger(__name__)


class TunnelsFailed(Exception):
    """The process cannot be started, or does not do what it is told."""


class Tunnels:
    """One per server, for its event loop. The process starts with the first way. `directory` is its alone."""

    def __init__(self, *, directory: Path, tokens: InstanceTokens) -> None:
        self._directory = directory
        self._tokens = tokens
        self._doors: dict[str, Door] = {}  # the most recently opened last
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._forgetting: set[asyncio.Task[None]] = set()

    async def open(self, node: Instance, port: int) -> str:
        """A Unix socket that leads to that port of the node, as long as it is the same node. Raises AgentUnreachable."""
        try:
            endpoint = parse(node.endpoint)
        except ValueError as error:
            raise AgentUnreachable(str(error), sent=False) from error
        if not endpoint.fingerprint:
            raise AgentUnreachable(f"the agent at {endpoint.url} speaks without TLS", sent=False)
        parts = urlsplit(endpoint.url)
        door = Door(
            name=f"{Path(node.instance_id).name}/{port}",
            host=parts.hostname or "",
            port=parts.port or 443,
            fingerprint=endpoint.fingerprint,
            token=self._tokens.server_token(node.instance_id),
            node_port=port,
            generation=node.assignment.generation if node.assignment is not None else 0,
        )
        async with self._turn:
            if self._doors.get(door.name) != door or self._process is None:
                try:
                    await self._open(door)
                except TunnelsFailed as error:
                    raise AgentUnreachable(f"no way to port {port} can be opened: {error}", sent=False) from error
        return str(self._directory / door.name)

    def forget(self, instance_id: str) -> None:
        """Closes the ways to an instance that has gone."""
        if not self._doors:
            return
        task = asyncio.create_task(self._close(f"{Path(instance_id).name}/"))
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    async def close(self) -> None:
        """Ends the process, with all connections."""
        async with self._turn:
            self._doors.clear()
            await self._end()
        for task in (self._watching, *self._forgetting):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _open(self, door: Door) -> None:
        before = self._doors.pop(door.name, None)
        self._doors[door.name] = door
        try:
            if self._process is None:
                await self._start()
            else:
                await self._tell(Told(open=door))
        except TunnelsFailed:
            del self._doors[door.name]
            if before is not None:
                self._doors[door.name] = before
            raise
        if len(self._doors) > MOST_DOORS:
            oldest = next(iter(self._doors))
            del self._doors[oldest]
            await self._tell(Told(close=oldest))

    async def _close(self, names: str) -> None:
        async with self._turn:
            gone = [name for name in self._doors if name.startswith(names)]
            for name in gone:
                del self._doors[name]
            if gone and self._process is not None:
                with contextlib.suppress(TunnelsFailed):
                    await self._tell(Told(close=names))

    async def _start(self) -> None:
        """Starts the process, with all doors. Raises TunnelsFailed."""
        try:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory.mkdir(mode=0o700, parents=True)
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "brickyard.nodes.tunnels", str(self._directory)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={name: os.environ[name] for name in _ALWAYS if name in os.environ},
                cwd="/",
                start_new_session=True,
                limit=LINE,
            )
        except OSError as error:
            raise TunnelsFailed(f"the tunnel process cannot be started: {error.strerror}") from error
        self._watching = asyncio.create_task(self._watch(self._process))
        for door in list(self._doors.values()):
            await self._tell(Told(open=door))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Starts it again when it ends by itself: somebody may hold a way for as long as a cluster runs."""
        code = await process.wait()
        async with self._turn:
            if self._process is not process:
                return
            self._process = None
        log.warning("tunnels_ended", code=code)
        await asyncio.sleep(AGAIN_S)
        async with self._turn:
            if self._process is None and self._doors:
                with contextlib.suppress(TunnelsFailed):  # the next one who opens a way tries again
                    await self._start()

    async def _tell(self, told: Told) -> None:
        """Raises TunnelsFailed; the process has been ended then, unless it said what is wrong."""
        process = self._process
        try:
            if process is None:
                raise TunnelsFailed("the tunnel process has ended")
            assert process.stdin and process.stdout  # noqa: S101 - both are pipes
            process.stdin.write(msgspec.json.encode(told) + b"\n")
            async with asyncio.timeout(ANSWER_S):
                await process.stdin.drain()
                answer = _decode_answer(await process.stdout.readline())
        except (OSError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
            await self._end()
            raise TunnelsFailed(str(error) or "the tunnel process does not answer") from error
        except asyncio.CancelledError:
            await self._end()  # its answer must not be taken for the next one's
            raise
        if answer.fault:
            raise TunnelsFailed(answer.fault)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
