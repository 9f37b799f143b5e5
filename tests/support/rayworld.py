"""A workspace's directories on a real Ray, and providers on them as its servers open them."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

import psutil

from brickyard.config.settings import Settings
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import LaunchRequest, Observed, Setup
from brickyard.providers.ray import RayProvider, open_provider
from tests.support.patience import until
from tests.support.rays import HEAD, RayCluster, ray_python

WORKSPACE = "1234567890123456"
TOKEN = "agent-token-that-nobody-else-may-read"


class World:
    """A workspace's directories, and providers on them as its servers open them."""

    def __init__(self, directory: Path, ray: RayCluster) -> None:
        self.directory = directory
        self.ray = ray
        self.providers: list[RayProvider] = []
        (directory / "data").mkdir()
        (directory / "data" / "workspace.id").write_text(WORKSPACE)

    def open(self, *, workspace_id: str = WORKSPACE, **section: object) -> RayProvider:
        values = {
            "address": self.ray.address, "node_address": HEAD, "python": str(ray_python()),
            "machine_dir": str(self.directory / "machine"), **section,
        }  # fmt: skip
        settings = Settings(
            data_dir=self.directory / "data", cache_dir=self.directory / "cache", orphan_grace_s=600, sections={"ray": values}
        )
        setup = Setup(settings=settings, server_url="http://127.0.0.1:1", workspace_id=workspace_id, runtimes=())
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

    def host_of(self, instance_id: str) -> str:
        """The Ray node on which an instance's agent runs, by the command line of the agent's ancestors."""
        for process in self.agent_processes(instance_id):
            for parent in process.parents():
                for word in parent.cmdline():
                    if word.startswith("--node_ip_address="):
                        return word.partition("=")[2]
        return ""

    def request(self, name: str, node_type: NodeType | None = None, *, provider: RayProvider | None = None) -> LaunchRequest:
        known = provider or self.providers[-1]
        return LaunchRequest(
            instance_id=name,
            node_type=node_type or known.node_types()[0],
            server_url="http://127.0.0.1:1",
            agent_token=TOKEN,
            server_token="server-token",
        )

    def launch(self, *names: str, node_type: NodeType | None = None) -> None:
        """Launches instances, and waits until each has its agent."""
        for name in names:
            self.providers[-1].launch(self.request(name, node_type))
        for name in names:
            until(functools.partial(self._has_agent, name), f"{name} has an agent: {self.seen(name)}")

    def _has_agent(self, name: str) -> bool:
        return self.agents(name) == 1

    def seen(self, name: str) -> Observed | None:
        """What the newest provider says of an instance now. Raises ProviderError."""
        return self.providers[-1].observe().get(name)

    def ended(self, name: str) -> str:
        """Waits until an instance is listed as ended; returns the message."""

        def over() -> Observed | None:
            seen = self.seen(name)
            assert seen is not None, f"{name} is no longer listed"
            return seen if not seen.alive else None

        return until(over, f"{name} has ended").message

    def end(self, *names: str) -> None:
        """Terminates instances until they are no longer listed."""
        provider = self.providers[-1]
        for name in names:

            def gone(name: str = name) -> bool:
                provider.terminate(name, reason="the test is over")
                return name not in provider.observe()

            until(gone, f"{name} is gone")

    def cores(self) -> float:
        """Of all machines that Ray has now."""
        room = self.providers[-1].capacity()
        return room.cores_total if room is not None else 0.0

    def close(self) -> None:
        for provider in self.providers:
            provider.close(keep_nodes=False)
