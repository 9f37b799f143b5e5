"""The servers that benchmarks measure, each in its own process: ours, a bare ASGI echo, and peers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from bench._harness import CACHE, PREFIX, program
from tests.support.ports import free_port
from tests.support.postgres import Postgres

TOKEN = "dapi" + "1" * 32
OWN_PROCESS: Mapping[str, float] = {"own_process": True}  # simulated nodes live in a process of their own
NO_SAMPLES = {"sample_s": 0.0}  # simulated nodes tell nothing of what they use
SILENT = {**NO_SAMPLES, "register_s": 3_600.0}  # nodes are launched, and never call
_ECHO = """
import sys, uvicorn
async def app(scope, receive, send):
    await receive()
    body = b'{"cluster_id": "' + b"x" * 1000 + b'"}'
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False, lifespan="off", loop="uvloop", http="httptools")
"""

# Writes what arrives to a file, and sends what it reads from it: no more, and on our own web server.
_COPY = """
import asyncio, sys, uvicorn, uvloop
from pathlib import Path
from brickyard.api.edge.serving import serving
place = Path("copied")
async def app(scope, receive, send):
    length = 0
    if scope["method"] == "PUT":
        with place.open("wb") as file:
            more = True
            while more:
                message = await receive()
                more = message.get("more_body", False)
                file.write(message.get("body", b""))
    elif place.exists():
        length = place.stat().st_size
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % length)]})
    if length:
        with place.open("rb") as file:
            while piece := file.read(1 << 20):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
config = serving(app)
config.port = int(sys.argv[1])
asyncio.Runner(loop_factory=uvloop.new_event_loop).run(uvicorn.Server(config).serve())
"""


class Served(NamedTuple):
    """A running server: its process, its base URL, and its directory."""

    pid: int
    url: str
    place: str


@contextlib.contextmanager
def brickyard(knobs: Mapping[str, float] = MappingProxyType({}), /, **settings: str) -> Iterator[Served]:
    """Our server on the simulated provider, unless told otherwise. `knobs` are those of the simulated world."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as data:
        port = free_port()
        if knobs:
            settings["simulated_knobs"] = str(Path(data, "knobs.toml"))
            Path(data, "knobs.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in knobs.items()))
        environment = {
            "BRICKYARD_DATA_DIR": data,
            "BRICKYARD_CACHE_DIR": str(CACHE),
            "BRICKYARD_PROVIDER": "simulated",
            "BRICKYARD_PORT": str(port),
            "BRICKYARD_ADMIN_TOKEN": TOKEN,
            "BRICKYARD_LOG_LEVEL": "warning",
            "BRICKYARD_RATE_LIMITS": "off",
            "BRICKYARD_ENDS_WITH": str(os.getpid()),
            **{f"BRICKYARD_{key.upper()}": value for key, value in settings.items() if value},
        }
        command = [sys.executable, "-m", "brickyard.server"]
        with _process(command, environment, f"http://127.0.0.1:{port}", "/readyz", place=data) as served:
            yield served


def agents(served: Served) -> list[int]:
    """The pids of its local nodes' agents."""
    return [json.loads(each.read_text())["pid"] for each in Path(served.place).glob("instances/*/agent.pid")]


@contextlib.contextmanager
def sqlite() -> Iterator[str]:
    """The URL of a database that is not there yet."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as place:
        yield f"sqlite:///{Path(place) / 'bench.db'}"


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL of this run."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as place:
        database = Postgres.start(Path(place))
        try:
            yield database
        finally:
            database.end()


def echo() -> AbstractContextManager[Served]:
    """The floor: an ASGI application that does nothing, on the same server software."""
    return _floor([sys.executable, "-c", _ECHO])


def copying() -> AbstractContextManager[Served]:
    """The floor of uploads and downloads: an application that only copies one file."""
    return _floor([sys.executable, "-c", _COPY])


def minilake() -> AbstractContextManager[Served]:
    """The peer, in its own environment, started by its own command. It always keeps files in its working directory."""
    return _floor([str(program("minilake", "minilake", CACHE / "bench" / "minilake")), "--port"])


def semblance() -> AbstractContextManager[Served]:
    """Another peer: a test double, which starts nothing. Its package does not name `httpx2`, which it needs."""
    home = CACHE / "bench" / "semblance"
    return _floor([str(program("semblance-databricks", "semblance-databricks", home, "httpx2")), "serve", "--port"])


@contextlib.contextmanager
def _floor(command: list[str]) -> Iterator[Served]:
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as place,
        _process([*command, str(port)], {}, f"http://127.0.0.1:{port}", "/", place=place) as served,
    ):
        yield served


@contextlib.contextmanager
def _process(command: list[str], environment: dict[str, str], url: str, path: str, place: str = ".") -> Iterator[Served]:
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, cwd=place)
    try:
        deadline = time.monotonic() + 180
        while not _answers(url + path):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not serve")
            time.sleep(0.05)
        yield Served(process.pid, url, place)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - loopback
            return True
    except urllib.error.HTTPError as error:
        return error.code != 503
    except OSError:
        return False
