"""The providers of a workspace: by name, and what they offer together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager

import structlog

from brickyard.domain.nodetypes import Merged, NodeType, Offer, merged
from brickyard.providers.base import AgentApi, CapacityError, Provider
from brickyard.sandbox.launcher import Network

SHOWN = 5  # of the node types that are offered in vain, in the log

log = structlog.get_logger(__name__)


class Providers:
    """Each instance is managed by the provider that launched it. A new one comes from the provider of its node type. `default` is
    the first: its node types win over others with the same id, and rows that name no provider are its own."""

    def __init__(self, default: Provider, *others: Provider) -> None:
        self.default = default
        self._by_name = {provider.name: provider for provider in (default, *others)}
        self._merged: tuple[list[Sequence[NodeType]], Merged] = ([], Merged((), {}))

    def __iter__(self) -> Iterator[Provider]:
        """The default first, then in the order of the settings."""
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def of(self, name: str) -> Provider | None:
        """The provider recorded with an instance, or None if it is no longer configured. Rows from before the name was recorded
        have none and belong to the default."""
        return self._by_name.get(name) if name else self.default

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    @property
    def compute(self) -> bool:
        """Whether nodes of any of them run code."""
        return any(provider.where != "nowhere" for provider in self)

    # -- what they offer ---------------------------------------------------------------------------------------------

    def offered(self) -> Merged:
        """The node types of all, each with its provider, and which are offered in vain. Returns the same object until a provider
        offers something else."""
        asked = [provider.node_types() for provider in self]
        known, before = self._merged
        if len(known) == len(asked) and all(one is other or one == other for one, other in zip(known, asked, strict=True)):
            return before
        now = merged([Offer(each.name, each.network or each.name, types) for each, types in zip(self, asked, strict=True)])
        for name, hidden in now.hidden.items():
            if hidden != before.hidden.get(name):
                log.warning(
                    "node_types_hidden", provider=name, number=len(hidden), first=sorted(hidden)[:SHOWN],
                    why=f"{' and '.join(sorted(set(hidden.values())))} named earlier offers them too",
                )  # fmt: skip
        self._merged = (asked, now)
        return now

    def node_types(self) -> Sequence[NodeType]:
        """See Provider.node_types. Each type says to which provider it belongs."""
        return self.offered().node_types

    def shortage(self, wanted: Sequence[NodeType], *, freed: Collection[str] = ()) -> CapacityError | None:
        """See Provider.shortage: the first provider's that has one."""
        for provider in self:
            own = [each for each in wanted if self.of(each.provider) is provider]
            if own and (short := provider.shortage(own, freed=freed)) is not None:
                return short
        return None

    # -- all of them together ----------------------------------------------------------------------------------------

    def attach(self, home: AgentApi) -> None:
        """See Provider.attach."""
        for provider in self:
            provider.attach(home)

    def background(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """See Provider.background. With several providers, each task's name begins with its provider's."""
        alone = len(self) == 1
        return {
            name if alone else f"{provider.name}: {name}": run for provider in self for name, run in provider.background().items()
        }

    def lend_network(self) -> AbstractAsyncContextManager[Network | None] | None:
        """See Provider.lend_network: that of the provider on this machine, for its own nodes."""
        return next((lent for provider in self if (lent := provider.lend_network()) is not None), None)

    def ending(self) -> tuple[Provider, ...]:
        """The providers whose instances end with the last server."""
        return tuple(provider for provider in self if provider.ends_with_server)

    @property
    def fate(self) -> str:
        """What becomes of instances with the last server: "kept", "ended", or which providers' end ("ended at local")."""
        ending = [provider.name for provider in self.ending()]
        return "kept" if not ending else "ended" if len(ending) == len(self) else f"ended at {', '.join(ending)}"

    def close(self, *, ending: Collection[Provider]) -> None:
        """See Provider.close: the nodes of those in `ending` end. One that fails does not keep the others from it; the first
        error is raised at the end."""
        failed: list[Exception] = []
        for provider in self:
            try:
                provider.close(keep_nodes=provider not in ending)
            except Exception as error:
                log.exception("close_failed", provider=provider.name)
                failed.append(error)
        if failed:
            raise failed[0]
