"""Ray's part of `bench/engines.py`: three nodes on loopback addresses."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench._engine import Engine, sized
from bench._harness import PREFIX, cpu_s
from brickyard.providers.base import Setup
from brickyard.providers.ray import RayProvider, open_provider
from tests.support.rays import HEAD, RayCluster, ray_python

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


class RayEngine(Engine):
    name = "ray"
    tiny, waiting = sized("tiny", 0.01), sized("waiting", 1_000)
    node_type = "ray.2c-2g"

    def __init__(self, ray: RayCluster, directory: Path) -> None:
        super().__init__(directory)
        self._ray = ray
        self._opened: list[RayProvider] = []

    def empty_units(self, count: int) -> list[float]:
        command = [str(ray_python()), "-c", EMPTY, self._ray.address, HEAD, str(count)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        found: list[float] = json.loads(done.stdout.splitlines()[-1])
        return found

    def opened(self, setup: Setup) -> RayProvider:
        self._opened.append(open_provider(setup))
        return self._opened[-1]

    def cpu_s(self) -> float:
        return cpu_s(self._opened[-1].process)

    def section(self) -> dict[str, str]:
        return {
            "address": self._ray.address, "node_address": HEAD, "python": str(ray_python()),
            "machine_dir": str(self.directory / "machine"),
        }  # fmt: skip


@contextlib.contextmanager
def opened() -> Iterator[RayEngine]:
    """Ray on three nodes, of which each claims the whole machine."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as directory:
        ray = RayCluster(cores=4)  # a cluster fits beside one that is ending
        try:
            ray.start()
            yield RayEngine(ray, Path(directory))
        finally:
            ray.close()
