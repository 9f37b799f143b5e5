"""What a library costs the nodes of one machine: four that want it at once against one, and a node for which it is cached.

Each node is what an agent makes of one: an environment over the runtime's packages, into which it installs. The limits are for
processor time; the time on the clock is printed beside it, since other work on the machine lengthens it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench._harness import PREFIX, limited, medians, table
from bench.start import install
from brickyard.agent.config import AgentConfig
from brickyard.agent.libraries import environment, libraries
from brickyard.agent.libraries.installer import Target
from brickyard.agent.libraries.libraries import Wanted
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.sandbox import launcher
from tests.support.packages import make_index, make_wheel

ROUNDS, NODES = 5, 4
FILES, FILE_BYTES = 1000, 8_000  # of the package: like a large library of pure Python
MOST, CACHED_S = 1.2, 1.5


class Took(NamedTuple):
    clock_s: float
    processor_s: float


def main(rounds: int = ROUNDS) -> int:
    manifest = install()
    one, four, cached = list[Took](), list[Took](), list[Took]()
    for _ in range(rounds):
        with machine(manifest) as nodes:
            one.append(took(nodes[:1]))
            cached.append(took(nodes[1:2]))
        with machine(manifest) as nodes:
            four.append(took(nodes))
    first, all_of_them, again = (medians(Took, each) for each in (one, four, cached))
    rows = [
        (f"{NODES} nodes against one, processor time", *limited(all_of_them.processor_s / first.processor_s, MOST)),
        ("a node for which it is cached, s of processor time", *limited(again.processor_s, CACHED_S)),
        ("one node, s of processor time", first.processor_s, ""),
        ("one node, s", first.clock_s, ""),
        (f"{NODES} nodes, s", all_of_them.clock_s, ""),
        ("a node for which it is cached, s", again.clock_s, ""),
    ]
    return table(f"Libraries: a wheel of {FILES} files, medians of {rounds} rounds", ("", "measured", "at most"), rows)


@contextmanager
def machine(manifest: RuntimeManifest) -> Iterator[list[Target]]:
    """New nodes of a machine with an empty cache, and a package index with one package."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as top:
        os.environ["PIP_CONFIG_FILE"] = "/dev/null"
        text = f"VALUES = {'0123456789 ' * (FILE_BYTES // 11)!r}\n"
        package = make_wheel(Path(top), "benched", files={f"benched/m{number}.py": text for number in range(FILES)})
        os.environ["PIP_INDEX_URL"] = make_index(Path(top), package)
        yield [_node(Path(top), f"i-{number}", manifest) for number in range(NODES)]


def took(nodes: list[Target]) -> Took:
    async def every() -> None:
        await asyncio.gather(*(libraries.install(Wanted(requirements=("benched",)), node) for node in nodes))

    began, before = time.monotonic(), _processor_s()
    asyncio.run(every())
    return Took(time.monotonic() - began, _processor_s() - before)


def _processor_s() -> float:
    """Of this process and the installers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _node(top: Path, name: str, manifest: RuntimeManifest) -> Target:
    config = AgentConfig(
        instance_id=name, agent_token="a", server_token="s", server_url="", instance_dir=str(top / name),  # noqa: S106 - no passwords
        cache_dir=str(top / "cache"), logs_dir=str(top / "logs"), node_code_dir="",
    )  # fmt: skip
    config.node_dir.mkdir(parents=True)
    environment.make(config, manifest, environ=os.environ)
    walls = launcher.choose("auto", launcher.probe())
    return Target(config=config, manifest=manifest, linked=True, walls=walls, network=None, lend=_machines_network)


@asynccontextmanager
async def _machines_network(_urls: Sequence[str]) -> AsyncIterator[None]:
    yield None
