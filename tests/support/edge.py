"""The API over a real socket, with any services behind it: for tests that use the Databricks SDK."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import uvicorn
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from prometheus_client import CollectorRegistry

from brickyard.api.app import build_app
from brickyard.api.context import ApiContext
from brickyard.api.edge.authentication import Authenticator
from brickyard.api.edge.registry import Operation
from brickyard.api.services import Services
from brickyard.domain.caller import Caller
from tests.support.patience import PATIENCE_S

NAMES = {field.name for field in dataclasses.fields(Services)}
USER = Caller(user_name="user@example.com", user_id="7", is_admin=False, token_id="t")


class OneToken:
    """Knows one user, by the token `secret`."""

    def known(self, bearer: str) -> Caller | None:
        return None

    async def authenticate(self, bearer: str) -> Caller | None:
        return USER if bearer == "secret" else None


class NoAudit:
    """Records nothing."""

    def begin(self, operation: str, **about: Any) -> None:
        """A call without an entry."""


class Idle:
    """A server that is ready and has nothing to do."""

    async def ready(self) -> str:
        return ""

    def disk_shortage(self) -> str:
        return ""

    def servers(self) -> int:
        return 1

    def lag_s(self) -> float:
        return 0.0

    async def refresh_metrics(self) -> None:
        """There is nothing to bring up to date."""


@contextlib.contextmanager
def edge(*, operations: Iterable[Operation] | None = None, **facts: Any) -> Iterator[str]:
    """Serves the API, or these operations, with these services (missing ones fail) and facts of the server; yields its URL."""
    given: dict[str, Any] = {"workspace_id": "1", "server": Idle(), "agents": None, "metrics": CollectorRegistry()}
    given |= {name: fact for name, fact in facts.items() if name not in NAMES}
    services: dict[str, Any] = dict.fromkeys(NAMES) | {"tokens": OneToken(), "audit": NoAudit()}
    made = Services(**services | {name: service for name, service in facts.items() if name in NAMES})
    context = ApiContext(services=made, **given)
    app = build_app(context, authenticator=Authenticator(tokens=OneToken(), links=made.ui_links), operations=operations)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    ready = threading.Event()

    async def serve() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ready.set()
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def sdk(url: str) -> WorkspaceClient:
    return WorkspaceClient(config=Config(host=url, token="secret", auth_type="pat", retry_timeout_seconds=5))
