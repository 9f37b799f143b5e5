"""Slurm's part of `bench/engines.py`: three machines on loopback addresses."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from bench._engine import Engine, sized
from bench._harness import PREFIX
from brickyard.providers.base import Provider, Setup
from brickyard.providers.slurm import open_provider
from tests.support.slurm import Slurm

NAMED = [
    {"node_type_id": "tiny", "num_cores": 1, "memory_mb": 16, "engine": {"partition": "many"}},
    {"node_type_id": "waiting", "num_cores": 1, "memory_mb": 16, "engine": {"partition": "down"}},
]
MANY = "PartitionName=many Nodes=node1,node2,node3 OverSubscribe=FORCE:200 MaxTime=INFINITE State=UP"


class SlurmEngine(Engine):
    name = "slurm"
    tiny, waiting = sized("tiny", 1), sized("waiting", 1)
    node_type = "slurm.main.2c4g"

    def __init__(self, slurm: Slurm, directory: Path) -> None:
        super().__init__(directory)
        self._slurm = slurm

    def empty_units(self, count: int) -> list[float]:
        """Jobs that write a file."""

        def submit(there: Path) -> None:
            subprocess.run(
                ["sbatch", "--parsable", "--partition=many", "--mem=16", "--output=/dev/null", f"--wrap=exec touch {there}"],
                env=self._slurm.environ, check=True, capture_output=True, cwd="/",
            )  # fmt: skip

        return self.files(count, submit)

    def provider(self, server_url: str, **settings: Any) -> Provider:
        """An autoscaler makes no difference: jobs wait anyway."""
        settings.pop("autoscaler", None)
        return super().provider(server_url, node_types=NAMED, **settings)

    def opened(self, setup: Setup) -> Provider:
        return open_provider(setup)

    def cpu_s(self) -> float:
        """Of the commands."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def section(self) -> dict[str, str]:
        return {"address": "node", "machine_dir": str(self.directory / "machine")}


@contextlib.contextmanager
def opened() -> Iterator[SlurmEngine]:
    """Slurm on three machines of two CPUs."""
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as directory,
        Slurm.running(cpus=2, memory_mb=4096, more=MANY) as slurm,
        mock.patch.dict(os.environ, {"SLURM_CONF": slurm.environ["SLURM_CONF"]}),
    ):
        yield SlurmEngine(slurm, Path(directory))
