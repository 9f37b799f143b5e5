"""A machine with a package index, and nodes on it that install libraries: no agent, no Spark."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from brickyard.agent.libraries import environment, libraries
from brickyard.agent.libraries.installer import Target
from brickyard.agent.libraries.libraries import Wanted
from brickyard.sandbox import launcher
from tests.agent.runtime import make_config, make_runtime, no_network
from tests.support.packages import make_index, make_wheel

WALLS = launcher.choose("auto", launcher.probe())


class Machine:
    """A machine with a package index, and nodes on it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.manifest = make_runtime(top)

    def node(self, name: str, *, linked: bool = True) -> Target:
        config = make_config(self.top, name)
        environment.make(config, self.manifest, environ={"PIP_CONFIG_FILE": "/dev/null"})
        return Target(config=config, manifest=self.manifest, linked=linked, walls=WALLS, network=None, lend=no_network)

    def index(self, *wheels: Path) -> str:
        return make_index(self.top, *wheels)

    def wheel(self, name: str, version: str = "1.0", **more: object) -> Path:
        return make_wheel(self.top, name, version, **more)  # type: ignore[arg-type]


def install(node: Target, *requirements: str, wheel: Path | None = None) -> None:
    asyncio.run(libraries.install(Wanted(requirements=requirements, wheel=wheel), node))


def drafts(machine: Machine) -> list[Path]:
    return list((machine.top / "cache" / "libraries" / "installer").glob("draft-*"))


def run(node: Target, *argv: str) -> str:
    bins = f"{node.config.python_dir}/bin:{node.top}/bin:/usr/bin:/bin"
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={"PATH": bins})
    return (done.stdout + done.stderr).strip()
