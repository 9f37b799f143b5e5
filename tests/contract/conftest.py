"""The official SDK against a server on the simulated provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient

from tests.support.server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server.running(tmp_path_factory.mktemp("workspace"), provider="simulated") as running:
        yield running


@pytest.fixture(scope="module")
def w(server: Server) -> WorkspaceClient:
    return server.client()
