"""COOL: end everything that was prepared, complete or not, and clean its directories."""

from __future__ import annotations

import asyncio

from brickyard.agent.converge import Current, why_cold
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.domain.node import Role
from brickyard.machine import files


async def cool(node: NodeState) -> None:
    if node.wanted is not None and node.wanted.role is not Role.WARM:
        node.cold_reason = why_cold(node.current, node.wanted)
    node.say("ending what was prepared")
    await node.end_host(grace_s=0)
    await asyncio.to_thread(files.remove_tree, node.config.node_dir)
    await asyncio.to_thread(files.remove_tree, node.config.libraries_dir)
    node.current = Current()
    node.manifest = None
    node.use.end()
    node.update(warm="", message="")


WORK = Work(cool, whole=True)
