"""The simulated world as a separate process, for a workspace that may have several servers: `python -m` this module.

It outlives any of the servers. They find it through its directory (`remote.py` is their side):

        world.lock   flock, held for the world's lifetime: two that start at once make one world
    world.json   {"pid", "url", "token"}, 0600
        world.log    its log

One port serves two kinds of calls, as JSON over HTTP. Servers' provider calls (`/world/...`) carry the world's token; their calls
to an instance's agent (`/instances/ID/v1/...`, see `agent/link/server.py`) carry that instance's server token.

It ends when it is told to, and when no server is left: at once if the process that all of them end with has ended, otherwise
after `orphan_grace_s`.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import os
import secrets
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec
import structlog
import uvloop
from aiohttp import web

from brickyard.logs import serverlog
from brickyard.machine import owner
from brickyard.providers.base import LaunchRequest, Observed, ProviderError
from brickyard.providers.simulated import knobsfile, wire
from brickyard.providers.simulated.httpservers import HttpServers, Line
from brickyard.providers.simulated.kernels import KernelRefused
from brickyard.providers.simulated.world import World
from brickyard.storage.directory import Storage
from brickyard.storage.private import write_private

_decode_server = msgspec.json.Decoder(wire.Server).decode
_decode_launch_request = msgspec.json.Decoder(LaunchRequest).decode
_decode_gone = msgspec.json.Decoder(wire.Gone).decode
_decode_look = msgspec.json.Decoder(wire.Look).decode
_decode_end = msgspec.json.Decoder(wire.End).decode
_decode_object = msgspec.json.Decoder(dict).decode


LOG_LIMIT = 20 * 2**20
LOCK_PATIENCE_S = 0.5  # a check whether a world is alive holds the lock for an instant
LOOK_S = 0.25
SURE_S = 5.0  # a living server makes some call within this time
BODY_LIMIT = 32 << 20
_STATUSES = {"NOT_FOUND": 404, "DEAD": 409, "LIMIT": 409}

log = structlog.get_logger("brickyard.world")

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Servers:
    """The servers that use the world. A server whose process has ended is forgotten at once."""

    def __init__(self, *, ends_with: int | None, orphan_grace_s: float) -> None:
        """`ends_with`: the process whose end also ends the server that started the world."""
        self._grace_s = orphan_grace_s
        self._here: set[wire.Server] = set()
        self._heard = time.monotonic()
        self._owners: dict[int, asyncio.Task[None]] = {}  # processes that servers end with; the task is done when one has ended
        self._ownerless = ends_with is None  # some server is tied to no process: whoever started it may start it again
        self._tasks: set[asyncio.Task[None]] = set()
        self._own(ends_with)

    def heard(self) -> None:
        """Records that some server has called."""
        self._heard = time.monotonic()

    def come(self, server: wire.Server) -> None:
        """Adds a server, until its process has ended or it leaves."""
        if server not in self._here:
            self._here.add(server)
            self._watch(server)
        self._ownerless = self._ownerless or server.ends_with is None
        self._own(server.ends_with)

    def leave(self, server: wire.Server) -> None:
        self._here.discard(server)

    def urls(self) -> set[str]:
        """Where agents find the living servers."""
        return {server.url for server in self._here}

    @property
    def in_use(self) -> bool:
        return bool(self._here)

    async def all_gone(self) -> str:
        """Waits until no server can come any more; returns the reason."""
        while True:
            silence = time.monotonic() - self._heard
            orphaned = not self._ownerless and all(task.done() for task in self._owners.values())
            if not self._here and silence > self._grace_s:
                return f"no server has lived for {silence:.0f} s (orphan_grace_s is {self._grace_s:g})"
            if not self._here and orphaned and silence > min(SURE_S, self._grace_s):
                return "no server lives, and the process that they end with has ended"
            await asyncio.sleep(LOOK_S)

    def _own(self, pid: int | None) -> None:
        if pid is not None and pid not in self._owners:
            self._owners[pid] = asyncio.create_task(owner.ended(pid))

    def _watch(self, server: wire.Server) -> None:
        async def forget() -> None:
            await owner.ended(server.pid)
            self.leave(server)

        task = asyncio.create_task(forget())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class WorldProcess:
    """Call `run`; it returns when the world is to end."""

    def __init__(self, place: Path, *, knobs_file: Path | None, ends_with: int | None, orphan_grace_s: float) -> None:
        self._place = place
        self._knobs_file = knobs_file
        self._token = secrets.token_hex(32)
        self._over = asyncio.Event()
        self._listed: Mapping[str, Observed] = {}  # what was listed last
        self._number = 0  # of that
        self._why = "a signal came"
        self._url = ""
        self._servers = Servers(ends_with=ends_with, orphan_grace_s=orphan_grace_s)
        self._line = Line(self._servers)
        self._world = World(
            outside=self,
            knobs=knobsfile.read(knobs_file) if knobs_file is not None else None,
            storage=Storage(place.parent),  # `place` is the storage's `simulated`
        )

    def server_of(self, request: LaunchRequest) -> HttpServers:
        return HttpServers(request, self._line)

    def endpoint_of(self, instance_id: str) -> str:
        return f"{self._url}/instances/{instance_id}"

    async def run(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._over.set)
        self._world.begin()
        runner = web.AppRunner(self._application(), access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
            await site.start()
            self._url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            note = wire.Note(pid=os.getpid(), url=self._url, token=self._token)
            write_private(self._place / wire.NOTE, msgspec.json.encode(note).decode())
            log.info("world_begins", url=self._url, pid=os.getpid())
            await self._until_over()
            log.info("world_ends", why=self._why, instances=len(self._world.observe()))
        finally:
            (self._place / wire.NOTE).unlink(missing_ok=True)
            self._world.end()
            await self._line.close()
            await runner.cleanup()

    async def _until_over(self) -> None:
        tasks = [asyncio.create_task(self._end_with_servers()), asyncio.create_task(self._rotate_log())]
        if self._knobs_file is not None:
            tasks.append(asyncio.create_task(knobsfile.follow(self._knobs_file, self._world.turn)))
        await self._over.wait()
        for task in tasks:
            task.cancel()

    async def _end_with_servers(self) -> None:
        self._why = await self._servers.all_gone()
        self._over.set()

    async def _rotate_log(self) -> None:
        while True:
            await asyncio.to_thread(serverlog.rotate, self._place / wire.LOG, limit=LOG_LIMIT)
            await asyncio.sleep(5.0)

    # -- what servers ask ------------------------------------------------------------------------------------------------

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=BODY_LIMIT, middlewares=[_errors])
        calls: dict[str, _Handler] = {
            "servers": self._come, "leave": self._leave, "launch": self._launch, "terminate": self._terminate,
            "observe": self._observe, "end": self._end,
        }  # fmt: skip
        for name, handler in calls.items():
            application.router.add_post(f"/world/{name}", self._trusted(handler))
        application.router.add_route("*", "/instances/{instance_id}{path:/.*}", self._agent)
        return application

    def _trusted(self, handler: _Handler) -> _Handler:
        async def checked(request: web.Request) -> web.StreamResponse:
            if not _bears(request, self._token):
                return _failure(401, "UNAUTHENTICATED", "a valid token is needed")
            self._servers.heard()
            return await handler(request)

        return checked

    async def _come(self, request: web.Request) -> web.Response:
        self._servers.come(_decode_server(await request.read()))
        return _json({})

    async def _leave(self, request: web.Request) -> web.Response:
        self._servers.leave(_decode_server(await request.read()))
        return _json({})

    async def _launch(self, request: web.Request) -> web.Response:
        asked = _decode_launch_request(await request.read())
        known = self._world.agent(asked.instance_id) is not None
        self._world.launch(asked)
        if not known:
            log.info("launched", instance_id=asked.instance_id, by=asked.server_url)
        return _json({})

    async def _terminate(self, request: web.Request) -> web.Response:
        asked = _decode_gone(await request.read())
        agent = self._world.agent(asked.instance_id)
        if agent is not None and agent.alive:
            log.info("terminated", instance_id=asked.instance_id, reason=asked.reason)
        self._world.terminate(asked.instance_id, reason=asked.reason)
        return _json({})

    async def _observe(self, request: web.Request) -> web.Response:
        asked, now = _decode_look(await request.read()), self._world.observe()
        if now is not self._listed:
            self._listed, self._number = now, self._number + 1
        if asked.have == self._number:
            return _json(wire.Listing(number=self._number))
        return _json(wire.Listing(number=self._number, instances=list(now.values())))

    async def _end(self, request: web.Request) -> web.Response:
        asked = _decode_end(await request.read())
        ends = not (asked.if_unused and self._servers.in_use)
        if ends:
            self._why = "it was told to"
            self._over.set()
        return _json(wire.Ending(ends=ends, instances=len(self._world.observe())))

    async def _agent(self, request: web.Request) -> web.Response:
        """One call to an instance's agent, with that instance's server token."""
        instance_id = request.match_info["instance_id"]
        agent = self._world.agent(instance_id)
        if agent is None:
            return _failure(503, "NO_NODE", f"{instance_id} is gone")
        if not _bears(request, agent.server_token):
            return _failure(401, "UNAUTHENTICATED", "a valid token is needed")
        body = _decode_object(await request.read() or b"{}")
        try:
            target = f"{request.match_info['path']}?{request.query_string}"
            return _json(self._world.call(instance_id, request.method, target, body))
        except KernelRefused as refused:
            return _failure(_STATUSES.get(refused.code, 400), refused.code, refused.message)


@web.middleware
async def _errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ProviderError as error:
        return _json(wire.Refusal.of(error), status=409)
    except msgspec.MsgspecError as error:
        return _failure(400, "INVALID", str(error))


def _bears(request: web.Request, token: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return scheme == "Bearer" and hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode())


def _json(answer: object, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), status=status, content_type="application/json")


def _failure(status: int, code: str, message: str) -> web.Response:
    return _json({"error": {"code": code, "message": message}}, status=status)


def main() -> int:
    """Runs the world. Returns 0 even if another world was started first."""
    parser = argparse.ArgumentParser(prog="python -m brickyard.providers.simulated.process")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--knobs", type=Path)
    parser.add_argument("--ends-with", type=int)
    parser.add_argument("--orphan-grace-s", type=float, required=True)
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--log-format", default="console")
    chosen = parser.parse_args()
    serverlog.configure_process(level=chosen.log_level, form=chosen.log_format)
    if not wire.take_lock(chosen.directory, patience_s=LOCK_PATIENCE_S):
        return 0
    (chosen.directory / wire.NOTE).unlink(missing_ok=True)  # of a killed world

    async def live() -> None:
        process = WorldProcess(
            chosen.directory,
            knobs_file=chosen.knobs,
            ends_with=chosen.ends_with,
            orphan_grace_s=chosen.orphan_grace_s,
        )
        await process.run()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(live())
    except (knobsfile.KnobsError, OSError) as error:
        sys.stderr.write(f"the simulated world cannot live: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
