"""The official SDK against a server on the simulated provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient

from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import SimulatedProvider
from tests.support.server import Server


@pytest.fixture(scope="module")
def machines() -> SimulatedProvider:
    """The simulated world, for its knobs."""
    return SimulatedProvider(node_types=cloud_types(), spot_market=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, machines: SimulatedProvider) -> Iterator[Server]:
    with Server.running(tmp_path_factory.mktemp("workspace"), provider="simulated", instances=machines) as running:
        yield running


@pytest.fixture(scope="module")
def w(server: Server) -> WorkspaceClient:
    return server.client()
