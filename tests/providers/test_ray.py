"""The Ray provider on a real Ray: the contract, and what becomes of instances when parts of Ray die."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from brickyard.config import Settings
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import CapacityError, Provider, Setup
from brickyard.providers.ray import RayProvider, open_provider
from brickyard.testing.contract import Bench, ProviderContract
from tests.support.rays import HEAD, RayCluster, ray_cluster, ray_python

pytestmark = pytest.mark.spark  # not that it needs Spark: it starts much, and waits beside the fast tests

HUGE = NodeType(node_type_id="huge", num_cores=512, memory_mb=4_000_000, category="test")
WORKSPACE = "1234567890123456"


class World:
    """A workspace's directories, and providers on them as its servers open them."""

    def __init__(self, directory: Path, ray: RayCluster) -> None:
        self.directory = directory
        self.ray = ray
        self.providers: list[RayProvider] = []
        (directory / "data").mkdir()
        (directory / "data" / "workspace.id").write_text(WORKSPACE)

    def open(self, *, server_url: str = "http://127.0.0.1:1", **section: object) -> RayProvider:
        values = {
            "address": self.ray.address, "node_address": HEAD, "python": str(ray_python()),
            "machine_dir": str(self.directory / "machine"), **section,
        }  # fmt: skip
        settings = Settings(
            data_dir=self.directory / "data", cache_dir=self.directory / "cache", orphan_grace_s=600, sections={"ray": values}
        )
        setup = Setup(settings=settings, server_url=server_url, workspace_id=WORKSPACE, runtimes=())
        self.providers.append(open_provider(setup))
        return self.providers[-1]

    def agents(self, instance_id: str) -> int:
        """How many agents of that instance live: by their directory, which an agent alone has open."""
        return len(self.agent_processes(instance_id))

    def agent_processes(self, instance_id: str) -> list[psutil.Process]:
        found = []
        lock = self.directory / "machine" / "instances" / WORKSPACE / instance_id / "agent.lock"
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if "--unit" in process.cmdline() and any(each.path == str(lock) for each in process.open_files()):
                    found.append(process)
        return found

    def close(self) -> None:
        for provider in self.providers:
            provider.close(keep_nodes=False)


@pytest.fixture(scope="module")
def ray() -> Iterator[RayCluster]:
    with ray_cluster() as made:
        yield made


class TestRay(ProviderContract):
    @pytest.fixture
    def bench(self, tmp_path: Path, ray: RayCluster) -> Iterator[Bench]:
        world = World(tmp_path, ray)
        reopen: Callable[[], Provider] = world.open
        made = Bench(reopen(), reopen=reopen, count=world.agents)
        made.refusals = {CapacityError: lambda: made.request(HUGE)}
        yield made
        world.close()
