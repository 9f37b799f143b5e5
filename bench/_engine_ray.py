"""Ray's part of `bench/engines.py`: three nodes on loopback addresses."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from brickyard.config.settings import Settings
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import Setup
from brickyard.providers.ray import RayProvider, open_provider
from tests.support.rays import HEAD, RayCluster, ray_python

WORKSPACE = "1234567890123456"
TINY = NodeType(node_type_id="tiny", num_cores=0.01, memory_mb=16, category="bench")
WAITING = NodeType(node_type_id="waiting", num_cores=1000, memory_mb=16, category="bench")
# The engine's own start of an empty unit: an actor that does nothing, until its first answer.
EMPTY = """
import json, sys, time, ray
ray.init(address=sys.argv[1], _node_ip_address=sys.argv[2], log_to_driver=False, configure_logging=False, namespace="empty")
class Empty:
    async def ready(self):
        return True
Actor = ray.remote(Empty)
took = []
for number in range(int(sys.argv[3])):
    began = time.monotonic()
    actor = Actor.options(name=f"e{number}", lifetime="detached", num_cpus=0.01, scheduling_strategy="SPREAD").remote()
    ray.get(actor.ready.remote())
    took.append(time.monotonic() - began)
    ray.kill(actor)
print(json.dumps(took))
"""


class RayEngine:
    """See `bench.engines.Engine`."""

    name = "ray"
    tiny, waiting = TINY, WAITING
    node_type = "ray.2c-2g"

    def __init__(self, ray: RayCluster, directory: Path) -> None:
        self._ray = ray
        self._directory = directory
        self._opened: list[RayProvider] = []

    def empty_units(self, count: int) -> list[float]:
        """Seconds for each."""
        command = [str(ray_python()), "-c", EMPTY, self._ray.address, HEAD, str(count)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        found: list[float] = json.loads(done.stdout.splitlines()[-1])
        return found

    def provider(self, server_url: str, *, grows: bool = False) -> RayProvider:
        """`grows`: launches what does not fit, so that it waits."""
        data = self._directory / "data"
        data.mkdir(exist_ok=True)
        (data / "workspace.id").write_text(WORKSPACE)
        section = {**self._section(), "autoscaler": grows}
        settings = Settings(data_dir=data, cache_dir=self._directory / "cache", sections={"ray": section})
        made = open_provider(Setup(settings=settings, server_url=server_url, workspace_id=WORKSPACE, runtimes=()))
        self._opened.append(made)
        return made

    def cpu_s(self) -> float:
        """CPU seconds of what runs beside the server for the newest provider."""
        times = psutil.Process(self._opened[-1].process).cpu_times()
        return float(times.user + times.system)

    def settings(self, cache_dir: Path) -> Mapping[str, str]:
        """Of a server on this engine."""
        section = {**self._section(), "machine_cache_dir": str(cache_dir)}
        return {f"ray_{key}": value for key, value in section.items()}

    def _section(self) -> dict[str, str]:
        return {
            "address": self._ray.address, "node_address": HEAD, "python": str(ray_python()),
            "machine_dir": str(self._directory / "machine"),
        }  # fmt: skip


@contextlib.contextmanager
def opened() -> Iterator[RayEngine]:
    """Ray on three nodes, of which each claims the whole machine."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        ray = RayCluster(cores=4)  # a cluster fits beside one that is ending
        try:
            ray.start()
            yield RayEngine(ray, Path(directory))
        finally:
            ray.close()
