"""WARM: prepare everything that a cluster can take over."""

from __future__ import annotations

import asyncio

from brickyard.agent.converge import Current, size_of
from brickyard.agent.state import NodeState
from brickyard.agent.steps import begin, install, start
from brickyard.agent.steps.work import Work
from brickyard.agent.watching.memory import driver_heap_mb
from brickyard.runtime.node.documents import Prepare


async def _warm(node: NodeState) -> None:
    wanted = node.assignment
    try:
        node.say(f"preparing a node for runtime {wanted.runtime}")
        await asyncio.to_thread(begin.make_directories, node)
        node.manifest = await install.runtime(node, wanted.runtime, {})
        node.progress(start.PROGRESS)
        host = await start.start_host(node, wanted, node.manifest)
        asked: Prepare = {
            **start.settings(node, ""), "heap_mb": driver_heap_mb(wanted.memory_mb), "java_options": (), "env": {},
            "warm": True, "cores": wanted.cores, "memory_mb": wanted.memory_mb,
        }  # fmt: skip
        await host.call("prepare", timeout_s=start.LIMIT_S, **asked)
    except BaseException:
        node.current = Current(prepared=size_of(wanted))  # whatever exists of it has to be ended
        raise
    node.current = Current(prepared=size_of(wanted), warm=True)
    node.update(warm=wanted.runtime, warm_error="", message="")


WORK = Work(_warm)
