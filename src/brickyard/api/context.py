"""What the API's handlers work with: the services, and what this server says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from prometheus_client import CollectorRegistry

from brickyard.api.services import Services
from brickyard.api.webpage import WebPage
from brickyard.domain.tracing import Tracing
from brickyard.nodes.sessions import AgentService


class ServerState(Protocol):
    """What this server says of itself."""

    async def ready(self) -> str:
        """ "" when the server may be used, and otherwise the reason why not."""
        ...

    def disk_shortage(self) -> str:
        """Why a server that may be used can do little, or ""."""
        ...

    def servers(self) -> int:
        """How many servers the workspace has."""
        ...

    def lag_s(self) -> float:
        """How long requested work has been waiting to begin: in the database's queue, for a loop or for the event loop."""
        ...

    async def refresh_metrics(self) -> None:
        """Brings up to date what the registry of metrics reads."""
        ...


@dataclass(frozen=True, kw_only=True)
class ApiContext:
    """Created once, by the composition root.

    `/metrics` reads from `metrics`; `build_app` registers the API's request metrics there.
    """

    services: Services
    agents: AgentService
    workspace_id: str
    server: ServerState
    metrics: CollectorRegistry
    host_names: str = ""  # by which clients call the server; empty: those that no stranger can own (edge/hosts.py)
    own_hosts: tuple[str, ...] = ()  # others that are the server's: its URLs, the address that it listens on
    external_url: str = ""  # the origin by which people and clients reach the workspace; empty: the one that they use
    workspace_name: str = ""  # on the web page
    metrics_token: str = ""
    web_page: WebPage = field(default_factory=WebPage)
    tracing: Tracing | None = None
    rate_limits: Mapping[str, float] = field(default_factory=dict)  # domain/ratelimits.py
