"""The Spark UI's proxy as a server, with a web server in Spark's place behind it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from aiohttp import web

from brickyard.api.edge.serving import serving
from brickyard.domain.caller import Caller
from brickyard.domain.errors import PermissionDenied, ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.gateway.answers import MAX_REWRITTEN
from brickyard.gateway.pages import Upstream
from brickyard.gateway.sparkui import SparkUi
from brickyard.gateway.webproxy import Address, WebProxy
from brickyard.store.store import Store
from tests.support import world as shared
from tests.support.databases import empty_sqlite

ID = "0101-000000-testtest"
PAGE = b"""<html><head><title>Jobs</title></head><body><a href="%(prefix)s/stages/">Stages</a>
<a href="http://127.0.0.1:0/logPage/?appId=app-1&executorId=3&logType=stderr">stderr</a></body></html>"""


class FakeSpark:
    """A web server that behaves as Spark's: it prefixes links, redirects to absolute addresses, and streams."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.more = asyncio.Event()
        self.url = ""
        self.sockets = 0  # that are open
        self.sent = 0  # messages of a flood

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        prefix = request.headers["X-Forwarded-Context"]
        match request.path:
            case "/":
                raise web.HTTPFound(f"{self.url}{prefix}/jobs/")
            case "/jobs/":
                return web.Response(body=PAGE.replace(b"%(prefix)s", prefix.encode()), content_type="text/html")
            case "/elsewhere":
                raise web.HTTPFound("http://evil.example.com/steal?x=1")
            case "/cookie":
                return web.Response(text="x", headers={"Set-Cookie": "a=b", "Content-Security-Policy": "none", "ETag": '"1"'})
            case "/large":
                return web.Response(body=b"z" * (MAX_REWRITTEN * 2), content_type="application/json")
            case "/stream":
                answer = web.StreamResponse()
                await answer.prepare(request)
                await answer.write(b"first")
                await self.more.wait()
                await answer.write(b"second")
                return answer
            case "/broken":
                answer = web.StreamResponse(headers={"Content-Length": "100"})
                await answer.prepare(request)
                await answer.write(b"first")
                assert request.transport is not None
                request.transport.close()
                return answer
        return web.Response(text=f"{request.path_qs}", status=404)

    async def echo(self, request: web.Request) -> web.WebSocketResponse:
        """Sends back what it is sent; `stop` closes with a code of its own, and `vanish` without one."""
        self.seen.append(request)
        opened = web.WebSocketResponse(protocols=("chat",), max_msg_size=0)
        await opened.prepare(request)
        self.sockets += 1
        with contextlib.suppress(ConnectionError):
            await self._talk(request, opened)
        self.sockets -= 1
        return opened

    async def _talk(self, request: web.Request, opened: web.WebSocketResponse) -> None:
        async for message in opened:
            match message.data:
                case "stop":
                    await opened.close(code=4001, message=b"enough")
                case "vanish":
                    assert request.transport is not None
                    request.transport.abort()
                case "flood":
                    for _ in range(10_000):
                        await opened.send_bytes(b"z" * (1 << 20))
                        self.sent += 1
                case str(text):
                    await opened.send_str(text)
                case data:
                    await opened.send_bytes(data)


class FakeSources(SparkUi):
    """Knows one cluster, and one user who may not see it."""

    def __init__(self, url: str, run: str) -> None:
        self.upstream = Upstream(url, "signed", run)
        self.forgotten: list[str] = []

    async def find(self, caller: Caller, address: Address) -> Upstream:
        if caller.user_name == "stranger@example.com":
            raise PermissionDenied("stranger@example.com may not attach to this cluster.")
        if address.cluster_id != ID:
            raise ResourceDoesNotExist(f"Cluster {address.cluster_id} does not exist")
        return self.upstream

    def forget(self, address: Address) -> TemporarilyUnavailable:
        self.forgotten.append(address.cluster_id)
        return TemporarilyUnavailable("It does not answer.")

    async def check(self, caller: Caller, address: Address) -> None:
        await self.find(caller, address)

    async def executor_log(self, caller: Caller, cluster_id: str, executor: int, stream: str) -> bytes:
        await self.find(caller, Address("", cluster_id, "", ""))
        return f"<b>{stream} of {executor}</b>".encode()


class World(shared.World):
    """Its proxy, and what it stands between."""

    def __init__(self, store: Store, spark: FakeSpark, run: str) -> None:
        super().__init__(store)
        self.spark, self.sources = spark, FakeSources(spark.url, run)
        self.noted: list[tuple[str, str, dict[str, str]]] = []
        self.ui = WebProxy(
            self.sources,
            authenticator=self.authenticator,
            links=self.links,
            note=lambda operation, caller, *, address="", **objects: self.noted.append((operation, caller.user_name, objects)),
        )
        self.server = uvicorn.Server(serving(self.ui))
        self.url = ""


@contextlib.asynccontextmanager
async def world(tmp_path: Path, run: str = "") -> AsyncIterator[World]:
    spark = FakeSpark()
    application = web.Application()
    application.router.add_get("/echo", spark.echo)
    application.router.add_route("*", "/{rest:.*}", spark.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    spark.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    store = Store.open(empty_sqlite(tmp_path / "ui.db"))
    made = World(store, spark, run)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        made.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        served = asyncio.create_task(made.server.serve(sockets=[listening]))
        while not made.server.started:
            await asyncio.sleep(0.01)
        try:
            yield made
        finally:
            spark.more.set()
            made.server.should_exit = True
            await served
            await made.ui.close()
            await runner.cleanup()
            store.close()
