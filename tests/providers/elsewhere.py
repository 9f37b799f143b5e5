"""A provider as another package would bring it: nothing can be had of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import InvalidError, LaunchRequest, Observed, Provider, Setup


class ElsewhereProvider(Provider):
    name = "elsewhere"

    def node_types(self) -> Sequence[NodeType]:
        return ()

    def launch(self, request: LaunchRequest) -> None:
        raise InvalidError("there is nothing")

    def terminate(self, instance_id: str, *, reason: str) -> None:
        pass

    def observe(self) -> Mapping[str, Observed]:
        return {}


def open_provider(setup: Setup) -> ElsewhereProvider:
    return ElsewhereProvider()
