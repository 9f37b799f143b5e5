"""The provider interface: a provider supplies instances.

A provider knows about machines and agents, not about clusters. Everything on the machine is up to the agent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from brickyard.config.settings import Settings
from brickyard.domain.node import AssignmentReply, Poll, ServerAddress, StatusReply, StatusReport
from brickyard.domain.nodeops import AgentClient
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.runtimes import Runtime
from brickyard.sandbox.launcher import Network
from brickyard.storage.directory import Storage

_Section = TypeVar("_Section", bound=msgspec.Struct)


class ProviderError(Exception):
    """A provider could not do what it was asked. The subclass tells the caller how to react."""


class CapacityError(ProviderError):
    """There is no room at the moment. Waiting or asking for less may help. `asked` and `left` are text: "8 cores, 16 GiB"."""

    def __init__(self, message: str, *, asked: str, left: str) -> None:
        super().__init__(message)
        self.asked = asked
        self.left = left


class QuotaError(ProviderError):
    """A limit that only an administrator can raise."""


class InvalidError(ProviderError):
    """The request can never succeed in this form."""


class ThrottledError(ProviderError):
    """Too many calls; try again after a pause."""


class TransientError(ProviderError):
    """A failure that may pass; try again with backoff."""


class SetupError(Exception):
    """A provider cannot be opened. The message tells the administrator in one sentence what is wrong and what to change."""


class LaunchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One instance to launch. The tokens belong to this instance only (see `domain.node`)."""

    instance_id: str
    node_type: NodeType
    server_url: str
    agent_token: str
    server_token: str
    servers: tuple[ServerAddress, ...] = ()  # all servers of the workspace, including the one at `server_url`
    encrypted: bool = False  # the provider's agents are on other machines: they serve TLS (docs/wires.md)
    server_ca: str = ""  # PEM: which certificates of servers such agents trust; empty: those that their machine trusts
    spot: bool = False  # an instance that may be taken away, if the provider has such
    tags: dict[str, str] = {}


class Observed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One listed instance. An instance that is not listed does not exist."""

    instance_id: str
    alive: bool  # False: it has ended, but something of it (a directory, a process) remains to be terminated
    message: str = ""  # what the provider says of it, for people: what it waits for, or why it has ended


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The provider's total and remaining capacity. Cores are logical, memory is MiB."""

    cores_total: float
    cores_left: float
    memory_mb_total: int
    memory_mb_left: int


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a provider's factory, which `brickyard.providers.registry` finds by the provider's name."""

    settings: Settings
    server_url: str  # the address for agents on other machines
    workspace_id: str = ""  # to tell this workspace's instances from others'
    runtimes: tuple[Runtime, ...]  # the catalogue

    @property
    def data_dir(self) -> Path:
        """The server's own directory."""
        return self.settings.data_dir

    @property
    def storage(self) -> Storage:
        """The storage that the workspace's servers and nodes share."""
        return Storage(self.settings.storage_dir)

    def section(self, kind: type[_Section], name: str) -> _Section:
        """The provider's own settings: its table in the TOML file ([ray]), and variables with its name.
        `kind`: a struct with a default for whatever may be omitted. Raises SetupError."""
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        given = {key: _read(value) for key, value in self.settings.sections.get(name, {}).items()}
        for key, value in given.items():
            if key not in fields:
                raise SetupError(f"{name}.{key} is not a setting. Settings of provider {name}: {', '.join(fields)}.")
            try:
                msgspec.convert(value, fields[key].type, strict=False)
            except msgspec.ValidationError as error:
                raise SetupError(f"{name}.{key} is wrong: {error}.") from error
        try:
            return msgspec.convert(given, kind, strict=False)
        except msgspec.ValidationError as error:
            raise SetupError(f"The settings of provider {name} ([{name}] in the file of settings) are wrong: {error}.") from error

    @property
    def server_file(self) -> Path:
        """server.json, by which agents on the server's machine find it, even after a restart on another port."""
        return self.data_dir / "server.json"


def _read(value: Any) -> Any:
    """A variable's text that is a JSON list or object, as that: variables hold what a table of the file holds."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(value)
    return value


class AgentApi(Protocol):
    """What agents call: the part of the server that its HTTP API offers them."""

    async def report(self, report: StatusReport) -> StatusReply: ...

    def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> Awaitable[AssignmentReply]: ...

    def poll(self, poll: Poll) -> Awaitable[AssignmentReply]: ...


class Provider(Protocol):
    """Derive from this class: methods with a body are defaults. `capacity` to `close` may block (they are called on worker
    threads). They and `node_types` must be safe to call from several threads at once, and may raise only `ProviderError`s.

    `brickyard.testing.contract` checks all of this (docs/providers.md).
    """

    name: str  # the registered name; recorded with every instance
    spot_market: bool = False  # whether `LaunchRequest.spot` has an effect
    ends_with_server: bool = False  # whether `close` ends the instances, unless they are to be kept
    where: Literal["here", "elsewhere", "nowhere"] = "elsewhere"  # on the server's machine, on others; or it computes nothing
    # Every node of a cluster must reach every other at the address that its agent reports. Providers with the same name here,
    # such as two engines on one set of machines, may share a cluster; with "" none does.
    network: str = ""

    def node_types(self) -> Sequence[NodeType]:
        """The node types on offer, best default first. Answers from memory: it is asked often, and on the server's event loop."""
        ...

    def capacity(self) -> Capacity | None:
        """The remaining room, or None if the provider does not know."""
        return None

    def shortage(self, wanted: Sequence[NodeType], *, freed: Collection[str] = ()) -> CapacityError | None:
        """Why nodes of these types could not all be launched now, once the instances `freed` are gone; None if they could, or if
        the provider does not know. An answer for this moment: it reserves nothing."""
        del wanted, freed
        return None

    def launch(self, request: LaunchRequest) -> None:
        """Starts an instance whose agent will call home. Idempotent by `instance_id`: launching a running instance does nothing,
        launching a terminated one raises InvalidError, at least while it is listed. Returns once the provider has accepted it;
        never waits for the agent.

        Raises CapacityError, QuotaError, InvalidError, ThrottledError or TransientError.
        """
        ...

    def terminate(self, instance_id: str, *, reason: str) -> None:
        """Begins to end an instance with all its processes and files. Idempotent; an unknown id is a success.

        Returns early; the caller repeats it until `observe` no longer lists the instance. `reason` is recorded in its logs.
        Raises ThrottledError or TransientError.
        """
        ...

    def observe(self) -> Mapping[str, Observed]:
        """Lists every existing instance of this workspace. Raises TransientError if the list is incomplete."""
        ...

    def close(self, *, keep_nodes: bool) -> None:
        """The server is stopping. Local providers end their instances unless `keep_nodes`; clouds leave them running."""
        del keep_nodes

    def lend_network(self) -> AbstractAsyncContextManager[Network | None] | None:
        """A network for what a server itself does at an address that a user has named, such as delivering logs: it reaches what
        nodes reach. Entering it, on the server's event loop, gives descriptors for `agent.transfers.run`, or None if nodes share
        this machine's network; it may raise OSError and `agent.addresses.NetworkError`. The default is None: nodes are elsewhere,
        and the server does no such thing for them."""
        return None

    # The following are called once, on the server's event loop, when the provider is opened.

    def agent_client(self) -> AgentClient | None:
        """The client with which the server calls agents. None: HTTP, at the endpoint that each agent has reported."""
        return None

    def attach(self, home: AgentApi) -> None:
        """Receives the server, for agents that live in its process; all others call `LaunchRequest.server_url`."""
        del home

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Tasks to run beside the server, by name, until it stops. A task that fails is logged and restarted."""
        return {}
