"""What the engines of `bench/engines.py` have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench._harness import CACHE, timed, until
from brickyard.config.settings import Settings
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import Provider, Setup

WORKSPACE = "1234567890123456"


class Engine(ABC):
    """One engine's part: `bench/_engine_NAME.py` has `opened()`, which yields it."""

    name: str
    tiny: NodeType  # of which hundreds fit
    waiting: NodeType  # of which none ever fits
    node_type: str  # for Spark

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @abstractmethod
    def empty_units(self, count: int) -> list[float]:
        """Seconds of the engine's own start of an empty unit."""

    @abstractmethod
    def section(self) -> Mapping[str, str]:
        """Its settings."""

    @abstractmethod
    def opened(self, setup: Setup) -> Provider: ...

    def cpu_s(self) -> float:
        """CPU seconds of what runs beside the server for the newest provider."""
        return 0.0

    def provider(self, server_url: str, **settings: Any) -> Provider:
        """A provider with these settings of its section."""
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        (data / "workspace.id").write_text(WORKSPACE)
        sections = {self.name: {**self.section(), **settings}}
        configured = Settings(data_dir=data, cache_dir=self.directory / "cache", sections=sections)
        return self.opened(Setup(settings=configured, server_url=server_url, workspace_id=WORKSPACE, runtimes=()))

    def settings(self) -> dict[str, str]:
        """Of a server on this engine."""
        return {f"{self.name}_{key}": value for key, value in {**self.section(), "machine_cache_dir": str(CACHE)}.items()}

    def files(self, count: int, start: Callable[[Path], object]) -> list[float]:
        """Seconds until units that write a file have written it."""

        def one(there: Path) -> None:
            start(there)
            until(there.exists, "an empty unit has run", every_s=0.005)

        return [timed(lambda number=number: one(self.directory / f"empty-{number}")) for number in range(count)]  # type: ignore[misc] # mypy infers no lambda with a default


def sized(name: str, num_cores: float) -> NodeType:
    return NodeType(node_type_id=name, num_cores=num_cores, memory_mb=16, category="bench")
