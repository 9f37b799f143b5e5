"""What the API's handlers work with: the services, and what this server says of itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from brickyard.nodes.sessions import AgentService
from brickyard.services.services import Services
from brickyard.services.webpage import WebPage


async def _nothing_to_do() -> None:
    """The default if the registry's metrics need no refresh."""


@dataclass(frozen=True, kw_only=True)
class ApiContext:
    """Created once, by the composition root.

    `ready` returns "" when the server may be used, and otherwise the reason why not; `servers` counts the workspace's servers.
    `disk_shortage`: why a server that may be used can do little, or "".
    `lag_s` is how long requested work has been waiting to begin: in the database's queue, for a loop or for the event loop.
    `/metrics` reads from `metrics` after `refresh_metrics`; `build_app` registers the API's request metrics there.
    """

    services: Services
    agents: AgentService
    workspace_id: str
    ready: Callable[[], Awaitable[str]]
    disk_shortage: Callable[[], str] = lambda: ""
    servers: Callable[[], int]
    lag_s: Callable[[], float]
    metrics: CollectorRegistry
    refresh_metrics: Callable[[], Awaitable[None]] = _nothing_to_do
    host_names: str = ""  # by which clients call the server; empty: those that no stranger can own (edge/hosts.py)
    own_hosts: tuple[str, ...] = ()  # others that are the server's: its URLs, the address that it listens on
    metrics_token: str = ""
    web_page: WebPage = field(default_factory=WebPage)
    rate_limits: Mapping[str, float] = field(default_factory=dict)  # domain/ratelimits.py
