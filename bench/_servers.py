"""The servers that benchmarks measure, each in its own process: ours, a bare ASGI echo, and the peer `minilake`."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import uv

from brickyard.config.settings import default_cache_dir
from brickyard.machine.packageindex import uv_environment

TOKEN = "dapi" + "1" * 32
MINILAKE = "minilake"
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


class Served:
    """A running server: its process, its base URL, and its directory."""

    def __init__(self, pid: int, url: str, place: str) -> None:
        self.pid = pid
        self.url = url
        self.place = place


@contextlib.contextmanager
def brickyard(knobs: Mapping[str, float] = MappingProxyType({}), /, **settings: str) -> Iterator[Served]:
    """Our server on the simulated provider, unless told otherwise. `knobs` are those of the simulated world."""
    with tempfile.TemporaryDirectory(prefix="brickyard-bench-") as data:
        port = _free_port()
        if knobs:
            settings["simulated_knobs"] = str(Path(data, "knobs.toml"))
            Path(data, "knobs.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in knobs.items()))
        environment = {
            "BRICKYARD_DATA_DIR": data,
            "BRICKYARD_CACHE_DIR": os.environ.get("BRICKYARD_CACHE_DIR") or str(default_cache_dir()),
            "BRICKYARD_PROVIDER": "simulated",
            "BRICKYARD_PORT": str(port),
            "BRICKYARD_ADMIN_TOKEN": TOKEN,
            "BRICKYARD_LOG_LEVEL": "warning",
            "BRICKYARD_RATE_LIMITS": "off",
            "BRICKYARD_ENDS_WITH": str(os.getpid()),
            **{f"BRICKYARD_{key.upper()}": value for key, value in settings.items()},
        }
        command = [sys.executable, "-m", "brickyard.server"]
        with _process(command, environment, f"http://127.0.0.1:{port}", "/readyz", place=data) as served:
            yield served


def agents(served: Served) -> list[int]:
    """The pids of its local nodes' agents."""
    return [json.loads(each.read_text())["pid"] for each in Path(served.place).glob("instances/*/agent.pid")]


@contextlib.contextmanager
def echo() -> Iterator[Served]:
    """The floor: an ASGI application that does nothing, on the same server software."""
    port = _free_port()
    with _process([sys.executable, "-c", _ECHO, str(port)], {}, f"http://127.0.0.1:{port}", "/") as served:
        yield served


@contextlib.contextmanager
def copying() -> Iterator[Served]:
    """The floor of uploads and downloads: an application that only copies one file."""
    port = _free_port()
    command = [sys.executable, "-c", _COPY, str(port)]
    with (
        tempfile.TemporaryDirectory(prefix="brickyard-bench-") as place,
        _process(command, {}, f"http://127.0.0.1:{port}", "/", place=place) as served,
    ):
        yield served


@contextlib.contextmanager
def minilake() -> Iterator[Served]:
    """The peer, in its own environment, started by its own command."""
    home = Path(os.environ.get("BRICKYARD_CACHE_DIR") or default_cache_dir()) / "bench" / "minilake"
    if not (home / "bin" / "python").exists():
        environment = {**os.environ, **uv_environment(os.environ)}
        subprocess.run([uv.find_uv_bin(), "venv", "-q", "--python", sys.executable, str(home)], check=True, env=environment)
        install = [uv.find_uv_bin(), "pip", "install", "-q", "--python", str(home / "bin" / "python"), MINILAKE]
        subprocess.run(install, check=True, env=environment)
    port = _free_port()
    command = [str(home / "bin" / "minilake"), "--port", str(port)]
    # It always keeps files in its working directory.
    with (
        tempfile.TemporaryDirectory(prefix="brickyard-bench-") as place,
        _process(command, {}, f"http://127.0.0.1:{port}", "/", place=place) as served,
    ):
        yield served


@contextlib.contextmanager
def _process(command: list[str], environment: dict[str, str], url: str, path: str, place: str = ".") -> Iterator[Served]:
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, cwd=place)
    try:
        deadline = time.monotonic() + 60
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
