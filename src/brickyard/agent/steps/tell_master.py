"""TELL_MASTER: tell a waiting worker where its driver is."""

from __future__ import annotations

import msgspec

from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work


async def _tell_master(node: NodeState) -> None:
    wanted = node.assignment
    await node.networks.join(wanted)
    await node.call("master", master_url=wanted.master_url)
    node.current = msgspec.structs.replace(node.current, master_url=wanted.master_url)


WORK = Work(_tell_master, progress="connecting to the driver", limit_s=300.0)
