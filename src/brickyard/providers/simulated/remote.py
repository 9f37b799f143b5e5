"""The simulated provider of a workspace that may have several servers: the world is a separate process (`process.py`).

The first server that needs the world starts it; the others find it by the note in its directory. It outlives any server.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec
import psutil

from brickyard.config.settings import Settings
from brickyard.domain.decoding import Decoders
from brickyard.domain.nodetypes import NodeType
from brickyard.providers import bootstrap
from brickyard.providers.base import LaunchRequest, Observed, Provider, TransientError
from brickyard.providers.simulated import wire

_ANSWERS = Decoders(dict, wire.Listing, wire.Ending)


_decode_refusal = msgspec.json.Decoder(wire.Refusal).decode


START_S = 30.0
END_S = 10.0
CALL_S = 10.0
LOOK_S = 1.0
_PAUSE_S = 0.02

T = TypeVar("T")


class _Listed(NamedTuple):
    """What a world listed, and its number of that."""

    world: wire.Note
    number: int
    instances: Mapping[str, Observed]


class RemoteSimulatedProvider(Provider):
    """One server's side."""

    name = "simulated"
    ends_with_server = True
    where = "nowhere"

    def __init__(self, *, settings: Settings, server_url: str, node_types: Sequence[NodeType]) -> None:
        self._place = wire.directory(settings)
        self._settings = settings
        self._node_types = tuple(node_types)
        self._server = wire.Server(pid=os.getpid(), url=server_url, ends_with=settings.ends_with)
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._known: wire.Note | None = None  # the world that knows this server
        self._left = False
        self._listed: _Listed | None = None

    def node_types(self) -> Sequence[NodeType]:
        return self._node_types

    def launch(self, request: LaunchRequest) -> None:
        _call(self._world(), "launch", request, dict)

    def terminate(self, instance_id: str, *, reason: str) -> None:
        if _lives(self._place):
            _call(self._world(), "terminate", wire.Gone(instance_id=instance_id, reason=reason), dict)

    def observe(self) -> Mapping[str, Observed]:
        """Empty if no world is alive: its instances have ended with it."""
        if not _lives(self._place):
            return {}
        world = self._world()
        listed = self._listed if self._listed is not None and self._listed.world == world else _Listed(world, 0, {})
        found = _call(world, "observe", wire.Look(have=listed.number), wire.Listing)
        if found.instances is not None:
            listed = _Listed(world, found.number, {seen.instance_id: seen for seen in found.instances})
        self._listed = listed
        return listed.instances

    def close(self, *, keep_nodes: bool) -> None:
        with self._starting:  # a world that is just starting would not be found
            self._left = True
        if not keep_nodes:
            end(self._place)
            if self._process is not None:
                self._process.wait()
        else:
            with contextlib.suppress(TransientError):  # the world notices by itself
                if (world := _find(self._place)) is not None:
                    _call(world, "leave", self._server, dict)

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        return {"simulated_world": self._stay_known}

    async def _stay_known(self) -> None:
        """Keeps a world running that knows this server: agents that lose their server come here."""
        while True:
            await asyncio.to_thread(self._world)
            await asyncio.sleep(LOOK_S)

    def _world(self) -> wire.Note:
        """The world: started if there is none, and told about this server. Raises TransientError."""
        found = _find(self._place)
        if found is not None and found == self._known:
            return found
        with self._starting:
            if self._left:
                raise TransientError("the server is stopping")
            found = _find(self._place) or self._start()
            if found != self._known:
                _call(found, "servers", self._server, dict)
                self._known = found
        return found

    def _start(self) -> wire.Note:
        """Starts a world and waits until one serves: ours, or that of a faster server. Raises TransientError."""
        deadline = time.monotonic() + START_S
        try:
            while (found := _find(self._place)) is None:
                if time.monotonic() > deadline:
                    raise TransientError(
                        f"the simulated world did not start within {START_S:.0f} s: see {self._place / wire.LOG}"
                    )
                if not _lives(self._place) and (self._process is None or self._process.poll() is not None):
                    self._process = self._spawn()
                time.sleep(_PAUSE_S)
        except OSError as error:
            raise TransientError(f"the simulated world cannot be started in {self._place}: {error}") from error
        return found

    def _spawn(self) -> subprocess.Popen[bytes]:
        chosen = self._settings
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [sys.executable, "-P", "-m", "brickyard.providers.simulated.process", "--directory", str(self._place)]
        command += [
            f"--orphan-grace-s={chosen.orphan_grace_s}",
            "--log-level",
            chosen.log_level,
            "--log-format",
            chosen.log_format,
        ]
        command += ["--knobs", str(chosen.simulated_knobs)] if chosen.simulated_knobs is not None else []
        command += [f"--ends-with={chosen.ends_with}"] if chosen.ends_with is not None else []
        log = os.open(self._place / wire.LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=bootstrap.environment(os.environ),
                start_new_session=True,  # so that signals for a server do not reach it
                cwd="/",
            )
        finally:
            os.close(log)


def end(place: Path) -> None:
    """Ends the world of that place and everything in it, and waits until it has ended. Raises TransientError."""
    world = _find(place)
    if world is None:
        return
    try:
        _call(world, "end", wire.End(), wire.Ending)
        _ended(place)
    except TransientError:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(world.pid)
            if str(place) in process.cmdline():
                process.kill()  # it hangs
        _ended(place)


def end_unused(place: Path) -> int:
    """Ends the world only if no server uses it. Returns how many instances have ended with it. Raises
    TransientError."""
    world = _find(place)
    if world is None or not (answer := _call(world, "end", wire.End(if_unused=True), wire.Ending)).ends:
        return 0
    _ended(place)
    return answer.instances


def _ended(place: Path) -> None:
    """Waits until no world is alive there."""
    deadline = time.monotonic() + END_S
    while _lives(place):
        if time.monotonic() > deadline:
            raise TransientError(f"the simulated world has not ended within {END_S:.0f} s: see {place / wire.LOG}")
        time.sleep(_PAUSE_S)


def _lives(place: Path) -> bool:
    """Whether there is a world. Raises TransientError if unknown: it must not be mistaken for gone."""
    with _trouble(place):
        return wire.lives(place)


def _find(place: Path) -> wire.Note | None:
    """The serving world. Raises TransientError."""
    with _trouble(place):
        return wire.find(place)


@contextlib.contextmanager
def _trouble(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TransientError(f"{place} cannot be used: {error.strerror or error}") from error


def _call(world: wire.Note, name: str, body: object, kind: type[T]) -> T:
    """One call. Raises what the world raises, and TransientError if it does not answer."""
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=CALL_S)
    headers = {"Authorization": f"Bearer {world.token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", f"/world/{name}", msgspec.json.encode(body), headers)
        response = connection.getresponse()
        status, answer = response.status, response.read()
        if status == 409:
            raise _decode_refusal(answer).error()
        if status != 200:
            raise TransientError(f"the simulated world answered {status}: {answer[:200].decode(errors='replace')}")
        return _ANSWERS.decode(answer, kind)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
        raise TransientError(f"the simulated world does not answer: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()
