"""TAKE: turn the warm node into a generation's node. Host, JVM and directories exist and are clean; only the cluster's
directory has to become visible."""

from __future__ import annotations

import asyncio
import subprocess

from brickyard.agent import sandbox
from brickyard.agent.converge import Stage
from brickyard.agent.state import NodeState
from brickyard.agent.steps import begin, join
from brickyard.agent.steps.cool import cool
from brickyard.agent.steps.work import Work
from brickyard.agent.view import CLUSTER
from brickyard.domain.node import Assignment, Phase

REVEAL_TIMEOUT_S = 20.0  # it normally takes about 30 ms


async def _take(node: NodeState) -> None:
    wanted = node.assignment
    if why := await _reveal(node, wanted):
        await cool(node)
        node.cold_reason = f"the cluster's directory cannot be shown to a node that runs already: {why}"
        return
    node.adopt(wanted, Stage.STARTED, phase=Phase.STARTING, warm_start=True)
    await asyncio.to_thread(begin.record, node, wanted)
    begin.refuse(wanted)


async def _reveal(node: NodeState, wanted: Assignment) -> str:
    """Shows the cluster's directory to the warm node. Returns why that failed, or "" if it worked."""
    shared = await asyncio.to_thread(begin.make_shared, node, wanted)
    if shared is None or node.host is None or not node.walled:
        return ""
    command = sandbox.reveal(
        node.config.python, source=shared, target=CLUSTER, launcher=node.host.pid, kind=node.status.isolation
    )  # fmt: skip
    try:
        done = await asyncio.to_thread(
            subprocess.run, command, env={}, capture_output=True, timeout=REVEAL_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else ""


WORK = Work(_take, progress=join.WORK.progress, cleans_up=True)
