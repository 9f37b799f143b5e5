"""Pages of programs on drivers in a real browser: through an http port mapping, in an isolated origin.

TensorBoard as well, where its package can be had. With BRICKYARD_TEST_JUPYTERLAB=PATH, the environment in which it is installed,
JupyterLab.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from aiohttp import web
from playwright.sync_api import expect

from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import Knobs, SimulatedProvider
from tests.clusters.v1.conftest import Api
from tests.support.environments import environment_with
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.server import Server
from tests.ui.conftest import Session

TENSORBOARD = ("tensorboard==2.21.0", "setuptools<81")  # it imports pkg_resources
LAB = os.environ.get("BRICKYARD_TEST_JUPYTERLAB", "")
PAGE = """<!doctype html><html><head><title>A program</title></head><body><p id="got">nothing</p><p id="said">nothing</p><script>
fetch("data").then(answer => answer.text()).then(text => { document.getElementById("got").textContent = text; });
const socket = new WebSocket(new URL("echo", location.href.replace(/^http/, "ws")));
socket.onopen = () => socket.send("over a websocket");
socket.onmessage = event => { document.getElementById("said").textContent = event.data; };
</script></body></html>"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One whose drivers' ports are this machine's."""
    machines = SimulatedProvider(node_types=cloud_types())
    machines.turn(Knobs(own_ports=True))
    with Server.running(tmp_path_factory.mktemp("ports"), provider="simulated", instances=machines) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: Server) -> Api:
    return Api(server.url)


@pytest.fixture(scope="module")
def cluster_id(api: Api) -> str:
    return api.running()


@pytest.fixture
def program() -> Iterator[int]:
    """The port of a web server with a page that fetches and talks."""
    port, loop, started, stop = free_port(), asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    async def data(_: web.Request) -> web.Response:
        return web.Response(text="fetched")

    async def echo(request: web.Request) -> web.WebSocketResponse:
        opened = web.WebSocketResponse()
        await opened.prepare(request)
        async for message in opened:
            await opened.send_str(f"{message.data}, and back")
        return opened

    async def serve() -> None:
        application = web.Application()
        application.add_routes([web.get("/", page), web.get("/data", data), web.get("/echo", echo)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        started.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(PATIENCE_S)
    yield port
    loop.call_soon_threadsafe(stop.set)
    thread.join(PATIENCE_S)
    loop.close()


def test_a_page_of_a_program_fetches_and_talks(session: Session, api: Api, cluster_id: str, program: int) -> None:
    made = api.data("POST", f"/{cluster_id}/proxy/ports", {"internal_port": program})
    page = session.page
    page.goto(made["url"])
    expect(page.locator("#got")).to_have_text("fetched")
    expect(page.locator("#said")).to_have_text("over a websocket, and back")
    assert page.evaluate("window.origin") == "null", "it can reach nothing else of the server"
    assert session.said == []


@contextlib.contextmanager
def running(api: Api, url: str, place: Path, home: str, *command: str) -> Iterator[None]:
    """A program of the environment `home`, once it answers at its mapping."""
    environment = {"HOME": str(place), "PATH": f"{home}/bin:/usr/bin:/bin"}
    with (place / "log").open("w") as log:
        started = subprocess.Popen([f"{home}/bin/{command[0]}", *command[1:]], stdout=log, stderr=log, env=environment, cwd=place)
    try:
        until(lambda: requests.get(url, headers=api.headers, timeout=PATIENCE_S).status_code < 500, "it answers")
        yield
    finally:
        started.terminate()
        started.wait(PATIENCE_S)


@pytest.mark.skipif(not LAB, reason="it takes JupyterLab: set BRICKYARD_TEST_JUPYTERLAB to an environment that has it")
def test_a_notebook_of_jupyterlab_runs_a_cell(session: Session, api: Api, cluster_id: str, tmp_path: Path) -> None:
    port, page = free_port(), session.page
    made = api.data("POST", f"/{cluster_id}/proxy/ports", {"internal_port": port, "strip_prefix": False})
    flags = (
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
        f"--ServerApp.base_url=/ports/{cluster_id}/{port}/",
    )
    open_to_all = ("--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True")
    with running(api, made["url"], tmp_path, LAB, "jupyter-lab", *flags, *open_to_all):
        page.goto(f"{made['url']}lab", timeout=PATIENCE_S * 1000)
        page.locator('.jp-LauncherCard[data-category="Notebook"]').first.click(timeout=PATIENCE_S * 1000)
        cell = page.locator(".jp-Notebook .cm-content").first
        cell.click(timeout=PATIENCE_S * 1000)
        page.keyboard.type('print(6 * 7, "from the kernel")')
        page.keyboard.press("Shift+Enter")
        expect(page.locator(".jp-OutputArea-output").first).to_contain_text("42 from the kernel", timeout=PATIENCE_S * 1000)


SCALARS = """
import sys
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter(sys.argv[1])
for step in range(20):
    value = Summary.Value(tag="training/loss", simple_value=1 / (step + 1))
    writer.add_event(Event(step=step, wall_time=1.8e9 + step, summary=Summary(value=[value])))
writer.close()
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with TensorBoard, which is no dependency of the project."""
    return str(environment_with(tmp_path_factory.mktemp("tensorboard") / "environment", *TENSORBOARD).parent)


def test_tensorboard_shows_the_loss_of_a_run(session: Session, api: Api, cluster_id: str, tmp_path: Path, board: str) -> None:
    port, page = free_port(), session.page
    subprocess.run([f"{board}/bin/python", "-c", SCALARS, str(tmp_path / "run")], check=True, timeout=PATIENCE_S)
    made = api.data("POST", f"/{cluster_id}/proxy/ports", {"internal_port": port})
    flags = ("--logdir", str(tmp_path), "--host", "127.0.0.1", "--port", str(port), "--load_fast", "false")
    with running(api, made["url"], tmp_path, board, "tensorboard", *flags):
        page.goto(made["url"], timeout=PATIENCE_S * 1000)
        expect(page.get_by_text("training", exact=True).first).to_be_visible(timeout=PATIENCE_S * 1000)
