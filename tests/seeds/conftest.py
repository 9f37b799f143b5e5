"""One workspace on the simulated provider for all examples of the guide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import SimulatedProvider
from tests.seeds.guide import Guide, GuideIds
from tests.support.server import TOKEN, Server


@pytest.fixture(scope="package")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    machines = SimulatedProvider(node_types=cloud_types())
    data_dir = tmp_path_factory.mktemp("guide")
    with Server.running(data_dir, instances=machines, provider="simulated", ids=GuideIds()) as server:
        yield Guide(server, machines)


@pytest.fixture(autouse=True)
def host_and_token(guide: Guide, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the guide has its readers configure once."""
    monkeypatch.setenv("DATABRICKS_HOST", guide.server.url)
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
