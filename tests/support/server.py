"""A complete server in this process, on its own port: what `brickyard up` runs, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from brickyard.config.settings import Settings
from brickyard.domain.clock import Clock, Ids
from brickyard.providers.base import Provider
from brickyard.providers.fleet import Providers
from brickyard.server.lifecycle import Application
from brickyard.store.store import Store
from tests.support.databases import empty_sqlite
from tests.support.patience import PATIENCE_S
from tests.support.runtimes import cache_dir
from tests.support.sdk import WorkspaceClient

TOKEN = "dapi" + "0" * 32
WORKSPACE_KEY = b"k" * 32


class Server:
    """`url`, `application`, and clients for it. Use `running`."""

    def __init__(
        self,
        settings: Settings,
        provider: Provider | Providers | None,
        clock: Clock | None,
        ids: Ids | None,
        wall: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._clock, self._wall = clock, wall
        self._ids = ids
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)  # with it, asyncio sends what it writes at once (TCP_NODELAY)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(1024)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.application: Application | None = None
        self._started = threading.Event()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    @property
    def store(self) -> Store:
        """The server's own store, for tests that cause trouble in it."""
        assert self.application is not None
        return self.application.store

    @property
    def data_dir(self) -> Path:
        """With the workspace's files and clusters' directories."""
        return self._settings.data_dir

    def client(self, token: str = TOKEN) -> WorkspaceClient:
        """The official SDK, configured for this server."""
        return WorkspaceClient(host=self.url, token=token)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        data = self._settings.data_dir
        (data / "server.json").write_text(
            json.dumps({"pid": os.getpid(), "url": self.url, "started_ms": int(time.time() * 1000)})
        )
        opened = Application.open(
            self._settings,
            server_url=self.url,
            workspace_key=WORKSPACE_KEY,
            admin_token=TOKEN,
            provider=self._provider,
            clock=self._clock,
            wall=self._wall,
            ids=self._ids,
        )
        async with opened as application:
            server = application.web(self._socket)
            served = asyncio.create_task(server.run())
            while not server.started and not served.done():
                await asyncio.sleep(0.01)
            self.application = application
            self._started.set()
            while not self._stop.is_set() and not served.done():
                await asyncio.sleep(0.05)
            await application.close(keep_nodes=False)
            server.stop()
            await served

    @classmethod
    @contextlib.contextmanager
    def running(
        cls,
        data_dir: Path,
        *,
        instances: Provider | Providers | None = None,
        clock: Clock | None = None,
        wall: Clock | None = None,
        ids: Ids | None = None,
        **settings: object,
    ) -> Iterator[Server]:
        """Runs a server until the block ends; its nodes end with it."""
        data_dir.mkdir(parents=True, exist_ok=True)
        if not (file := data_dir / "brickyard.db").exists() and not settings.get("database_url"):
            empty_sqlite(file)
        # Tests call as fast as they can, and a training in the background would take the processors from them.
        values = {"cache_dir": cache_dir(), "rate_limits": "off", "background_training": False, **settings}
        server = cls(Settings(data_dir=data_dir, **values), instances, clock, ids, wall)  # type: ignore[arg-type] # keyword arguments of a struct
        server._thread.start()
        try:
            if not server._started.wait(PATIENCE_S) or server._error is not None:
                raise RuntimeError("the server did not start") from server._error
            yield server
        finally:
            server._stop.set()
            server._thread.join(PATIENCE_S)
            server._socket.close()
