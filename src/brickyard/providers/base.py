"""The provider contract: where instances come from.

A provider knows machines and agents, and nothing of clusters. Everything on the machine is the agent's work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from brickyard.domain.nodetypes import NodeType


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


class LaunchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One instance to launch. The tokens are this instance's own (see `domain.node`)."""

    instance_id: str
    node_type: NodeType
    server_url: str
    agent_token: str
    server_token: str
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


class Provider(Protocol):
    """All methods may block (they are called on worker threads), must be safe to call from several threads at once, and
    raise nothing but `ProviderError`s."""

    name: str
    spot_market: bool  # whether `LaunchRequest.spot` means something here
    ends_with_server: bool  # `close` ends the instances, unless they are to be kept

    def node_types(self) -> Sequence[NodeType]:
        """What may be launched here, best default first. Cheap; callers ask often."""
        ...

    def capacity(self) -> Capacity | None:
        """Room left, or None where the provider does not know."""
        ...

    def launch(self, request: LaunchRequest) -> None:
        """Start an instance whose agent will call home. Idempotent by `instance_id`: launching what runs does nothing,
        launching what was terminated raises InvalidError. Returns once the provider has accepted it; never waits for the agent.

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
        ...
