"""HOST: start the sandbox with the node host."""

from __future__ import annotations

from brickyard.agent.converge import Stage
from brickyard.agent.state import NodeState
from brickyard.agent.steps import start
from brickyard.agent.steps.work import Work


async def _host(node: NodeState) -> None:
    assert node.manifest is not None  # noqa: S101 - `decide` installs first
    await start.start_host(node, node.assignment, node.manifest)
    node.advance(Stage.HOSTED)


WORK = Work(_host, progress=start.PROGRESS, limit_s=start.LIMIT_S)
