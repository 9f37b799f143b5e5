"""Slurm's part of `bench/engines.py`: three machines on loopback addresses."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from brickyard.config.settings import Settings
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import Setup
from brickyard.providers.slurm import SlurmProvider, open_provider
from tests.support.slurm import Slurm

WORKSPACE = "1234567890123456"
TINY = NodeType(node_type_id="tiny", num_cores=1, memory_mb=16, category="bench")
WAITING = NodeType(node_type_id="waiting", num_cores=1, memory_mb=16, category="bench")
NAMED = [
    {"node_type_id": "tiny", "num_cores": 1, "memory_mb": 16, "engine": {"partition": "many"}},
    {"node_type_id": "waiting", "num_cores": 1, "memory_mb": 16, "engine": {"partition": "down"}},
]
MANY = "PartitionName=many Nodes=node1,node2,node3 OverSubscribe=FORCE:200 MaxTime=INFINITE State=UP"


class SlurmEngine:
    """See `bench.engines.Engine`."""

    name = "slurm"
    tiny, waiting = TINY, WAITING
    node_type = "slurm.main.2c4g"

    def __init__(self, slurm: Slurm, directory: Path) -> None:
        self._slurm = slurm
        self._directory = directory

    def empty_units(self, count: int) -> list[float]:
        """The engine's own start of an empty unit: a job that writes a file, until that is there."""
        took = []
        for number in range(count):
            there = self._directory / f"empty-{number}"
            began = time.monotonic()
            subprocess.run(
                ["sbatch", "--parsable", "--partition=many", "--mem=16", "--output=/dev/null", f"--wrap=exec touch {there}"],
                env=self._slurm.environ, check=True, capture_output=True, cwd="/",
            )  # fmt: skip
            while not there.exists():
                time.sleep(0.005)
            took.append(time.monotonic() - began)
        return took

    def provider(self, server_url: str, *, grows: bool = False) -> SlurmProvider:
        """`grows` makes no difference: jobs wait anyway."""
        del grows
        data = self._directory / "data"
        data.mkdir(exist_ok=True)
        (data / "workspace.id").write_text(WORKSPACE)
        section = {**self._section(), "node_types": NAMED}
        settings = Settings(data_dir=data, cache_dir=self._directory / "cache", sections={"slurm": section})
        return open_provider(Setup(settings=settings, server_url=server_url, workspace_id=WORKSPACE, runtimes=()))

    def cpu_s(self) -> float:
        """CPU seconds of the commands."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def settings(self, cache_dir: Path) -> Mapping[str, str]:
        """Of a server on this engine."""
        section = {**self._section(), "machine_cache_dir": str(cache_dir)}
        return {f"slurm_{key}": value for key, value in section.items()}

    def _section(self) -> dict[str, str]:
        return {"address": "node", "machine_dir": str(self._directory / "machine")}


@contextlib.contextmanager
def opened() -> Iterator[SlurmEngine]:
    """Slurm on three machines of two CPUs."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, Slurm.running(cpus=2, memory_mb=4096, more=MANY) as slurm:
        before = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = slurm.environ["SLURM_CONF"]
        try:
            yield SlurmEngine(slurm, Path(directory))
        finally:
            del os.environ["SLURM_CONF"]
            if before is not None:
                os.environ["SLURM_CONF"] = before
