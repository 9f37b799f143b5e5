"""CLOSE: the cluster stops soon. Nothing new begins, users' programs are told, and what runs may finish.

Ends when nothing runs any more. Until then the server may end the node at any time.
"""

from __future__ import annotations

import asyncio

import msgspec

from brickyard.agent.clock import now_ms
from brickyard.agent.host import HostError, HostGone
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.agent.telling import Programs, left, programs_of, tell
from brickyard.domain.decoding import converter

LOOK_S = 0.25
ANSWER_S = 10.0  # the host answers at once; if it does not, nothing is known of what runs
LOOKS = 2  # what Spark runs is known from looks of the host; the one that was in progress may be from before


class Running(msgspec.Struct):
    """What the node host says of what runs. `looks`: how often it has asked Spark."""

    commands: bool
    spark: bool
    looks: int


_to_running = converter(Running)


async def _close(node: NodeState) -> None:
    first = await _ask(node)
    told = await asyncio.to_thread(programs_of, node.host.pid) if node.host is not None and node.host.pid else Programs((), ())
    await asyncio.to_thread(tell, told)
    node.say(f"the cluster stops: {len(told.kernels)} kernels and {len(told.started)} programs have been told (SIGTERM)")
    node.update(told_ms=now_ms())
    while not await _is_over(node, first, told):  # noqa: ASYNC110 - the end of a process tells nobody
        await asyncio.sleep(LOOK_S)
    node.current = msgspec.structs.replace(node.current, closed=True)
    node.update(quiet_ms=now_ms())


async def _is_over(node: NodeState, first: Running | None, told: Programs) -> bool:
    now = await _ask(node)
    if now is None or now.commands or now.spark or now.looks < (first.looks if first is not None else 0) + LOOKS:
        return False
    return not await asyncio.to_thread(left, told.started)


async def _ask(node: NodeState) -> Running | None:
    """What runs; None if that is not known. From the first time on, the host takes no new commands. Raises HostGone."""
    if node.host is None:
        raise HostGone
    try:
        answer = await node.host.call("closing", timeout_s=ANSWER_S)
        return _to_running(answer)
    except HostGone:
        raise
    except (HostError, msgspec.ValidationError):
        return None


WORK = Work(_close)
