"""The provider contract: where instances come from.

A provider knows machines and agents, and nothing of clusters. Everything on the machine is the agent's work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from brickyard.config import Settings
from brickyard.domain.node import AssignmentReply, ServerAddress, StatusReply, StatusReport
from brickyard.domain.nodeops import AgentClient
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.runtimes import Runtime
from brickyard.storage.directory import Storage


class ProviderError(Exception):
    """A provider could not do what it was asked. The subclass says what the caller should decide."""


class CapacityError(ProviderError):
    """There is no room now. Waiting or asking for less may help. `asked` and `left` are for people: "8 cores, 16 GiB"."""

    def __init__(self, message: str, *, asked: str, left: str) -> None:
        super().__init__(message)
        self.asked = asked
        self.left = left


class QuotaError(ProviderError):
    """A limit that only an administrator can raise."""


class InvalidError(ProviderError):
    """The request can never succeed as it stands."""


class ThrottledError(ProviderError):
    """Asked too fast; try again after a pause."""


class TransientError(ProviderError):
    """It failed for a reason that may pass; try again with backoff."""


class SetupError(Exception):
    """A provider cannot be opened. The message is one sentence for the administrator: what is wrong and what to change."""


class LaunchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One instance to launch. The tokens are this instance's own (see `domain.node`)."""

    instance_id: str
    node_type: NodeType
    server_url: str
    agent_token: str
    server_token: str
    servers: tuple[ServerAddress, ...] = ()  # all servers of the workspace, the one at `server_url` among them
    spot: bool = False  # an instance that may be taken away, where the provider has such
    tags: dict[str, str] = {}


class Observed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One instance that the provider lists. An instance that it does not list does not exist."""

    instance_id: str
    alive: bool  # False: it has ended, but something of it (a directory, a process) is left to terminate


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider has and what is left of it. Cores are logical, memory is MiB."""

    cores_total: float
    cores_left: float
    memory_mb_total: int
    memory_mb_left: int


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider is made from: handed to the factory that `brickyard.providers.registry` finds by the provider's name."""

    settings: Settings
    server_url: str  # what agents on other machines call
    runtimes: tuple[Runtime, ...]  # the catalogue

    @property
    def data_dir(self) -> Path:
        """The server's own directory."""
        return self.settings.data_dir

    @property
    def storage(self) -> Storage:
        """What the workspace's servers and nodes share."""
        return Storage(self.settings.storage_dir)

    @property
    def server_file(self) -> Path:
        """server.json, by which agents on the server's machine find it, also after a restart on another port."""
        return self.data_dir / "server.json"


class Home(Protocol):
    """What agents call: the part of the server that its HTTP API shows to them."""

    async def report(self, report: StatusReport) -> StatusReply: ...

    async def assignment(self, instance_id: str, have: int, wait_s: float) -> AssignmentReply: ...


class Provider(Protocol):
    """Derive from it: what has a body here is a default. `node_types` to `close` may block (they are called on worker threads),
    must be safe to call from several threads at once, and raise nothing but `ProviderError`s.

    `brickyard.testing.contract` checks all of it (docs/providers.md).
    """

    name: str  # as it is registered; on record with every instance
    spot_market: bool = False  # whether `LaunchRequest.spot` means something here
    ends_with_server: bool = False  # `close` ends the instances, unless they are to be kept
    where: Literal["here", "elsewhere", "nowhere"] = "elsewhere"  # on the server's machine, on others; or it computes nothing

    def node_types(self) -> Sequence[NodeType]:
        """What may be launched here, best default first. Cheap; callers ask often."""
        ...

    def capacity(self) -> Capacity | None:
        """Room left, or None where the provider does not know."""
        return None

    def launch(self, request: LaunchRequest) -> None:
        """Start an instance whose agent will call home. Idempotent by `instance_id`: launching what runs does nothing,
        launching what was terminated raises InvalidError, at least while it is listed. Returns once the provider has accepted it;
        never waits for the agent.

        Raises CapacityError, QuotaError, InvalidError, ThrottledError, TransientError.
        """
        ...

    def terminate(self, instance_id: str, *, reason: str) -> None:
        """Begin to end an instance with all its processes and files. Idempotent; an unknown id is a success.

        Returns early; the caller repeats it until `observe` no longer lists the instance. `reason` is recorded in its logs.
        Raises ThrottledError, TransientError.
        """
        ...

    def observe(self) -> Mapping[str, Observed]:
        """Every instance of this workspace that exists. Raises TransientError when the answer is not complete."""
        ...

    def close(self, *, keep_nodes: bool) -> None:
        """The server is leaving. Local providers end their instances unless `keep_nodes`; clouds leave them alone."""
        del keep_nodes

    # These are called once, on the server's event loop, when the provider is opened.

    def agent_client(self) -> AgentClient | None:
        """How the server calls the agents. None: at the endpoint that each has reported, over HTTP."""
        return None

    def attach(self, home: Home) -> None:
        """The server is there. For agents that live in its process; all others call `LaunchRequest.server_url`."""
        del home

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """What runs beside the server, by name, until it stops. A task that fails is logged and started again."""
        return {}
