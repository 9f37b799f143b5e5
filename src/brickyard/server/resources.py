"""What exists before the parts of a server, and outlives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from brickyard.config.settings import Settings
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.nodetypes import NodeTypes
from brickyard.domain.prices import Prices, priced
from brickyard.providers import pricing
from brickyard.providers.fleet import Providers
from brickyard.storage.directory import Storage
from brickyard.store.membership import Membership
from brickyard.store.store import Store

if TYPE_CHECKING:  # cryptography, only where it is used
    from brickyard.nodes.authority import Authority


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources that exist before the parts and outlive them. Agents call `server_url`, and may fall back to any of
    `servers()`."""

    settings: Settings
    server_url: str
    authority: Authority | None = None  # signs this server's certificate for agents on other machines, if it has a port for them
    server_ca: str = ""  # what such agents trust
    workspace_id: str
    workspace_key: bytes = field(repr=False)
    member: Membership
    store: Store
    storage: Storage
    providers: Providers
    clock: Clock
    wall: Clock  # for what people and other machines name by date: schedules and credentials
    ids: Ids
    metrics: CollectorRegistry

    @cached_property
    def prices(self) -> Prices:
        """The workspace's price list."""
        return pricing.read(self.settings.node_prices)

    @cached_property
    def node_types(self) -> NodeTypes:
        """The providers' node types, at the workspace's prices."""
        return priced(self.providers.node_types, self.prices)
