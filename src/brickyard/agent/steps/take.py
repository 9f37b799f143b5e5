"""TAKE: turn the warm node into a generation's node. Host, JVM and directories exist and are clean; only the cluster's
directories have to become visible."""

from __future__ import annotations

import asyncio

from brickyard.agent.converge import Stage
from brickyard.agent.showing import show
from brickyard.agent.state import NodeState
from brickyard.agent.steps import begin, join
from brickyard.agent.steps.cool import cool
from brickyard.agent.steps.install import with_needed
from brickyard.agent.steps.work import Work
from brickyard.domain.node import Assignment, Phase
from brickyard.sandbox.view import CLUSTER, WORKSPACE


async def _take(node: NodeState) -> None:
    wanted = node.assignment
    if why := await _reveal(node, wanted):
        await cool(node)
        node.cold_reason = f"the cluster's directories cannot be shown to a node that runs already: {why}"
        return
    if node.manifest is not None:  # layers may have come since the warm node was made: its JVM is then replaced
        node.manifest = await with_needed(node, node.manifest, wanted.runtime, wanted.spark_conf)
    node.adopt(wanted, Stage.STARTED, phase=Phase.STARTING, warm_start=True)
    await asyncio.to_thread(begin.record, node, wanted)
    begin.refuse(wanted)


async def _reveal(node: NodeState, wanted: Assignment) -> str:
    """Shows the cluster's directories to the warm node. Returns why that failed, or "" if it worked."""
    await asyncio.to_thread(begin.make_shared, node, wanted)
    if node.host is None or not node.walled:
        await asyncio.to_thread(begin.link_workspace, node, wanted)
        return ""
    places = {CLUSTER: node.config.cluster_dir(wanted.cluster_id), WORKSPACE: node.config.workspace_of(wanted.cluster_id)}
    shown = {target: source for target, source in places.items() if source is not None}
    return await show(node, shown) if shown else ""


WORK = Work(_take, progress=join.WORK.progress, whole=True)
