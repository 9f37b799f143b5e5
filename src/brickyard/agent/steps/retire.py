"""RETIRE: a node that leaves its cluster hands over its data."""

from __future__ import annotations

import msgspec

from brickyard.agent.converge import Stage
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.domain.node import Phase


async def _retire(node: NodeState) -> None:
    joined = node.current.stage is Stage.JOINED
    node.current = msgspec.structs.replace(node.current, retiring=True)
    node.update(phase=Phase.RETIRING if joined else Phase.RETIRED)
    if joined:
        await node.call("retire")


WORK = Work(_retire, progress="leaving the cluster", limit_s=60.0)
