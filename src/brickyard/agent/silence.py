"""Watches whether Spark on the node answers, and since when it does not."""

from __future__ import annotations

import asyncio
import time

from brickyard.agent.clock import now_ms
from brickyard.agent.host import HostError, NodeHost
from brickyard.agent.state import NodeState
from brickyard.domain.node import Phase

PULSE_S, PULSE_TIMEOUT_S = 2.0, 8.0  # between two questions to Spark, and for an answer from the node host
SILENCE_S = 10.0  # shorter silences are normal on a busy machine and not reported


async def watch(node: NodeState) -> None:
    """Watches forever whether Spark on the node answers, and reports since when it does not."""
    deaf_s = 0.0  # how long the node host itself has not answered
    while True:
        await asyncio.sleep(PULSE_S)
        host = node.joined_host
        if host is None or node.status.phase is not Phase.READY:
            deaf_s = 0.0
            continue
        began = time.monotonic()
        asked_s = await _ask(node, host)
        deaf_s = deaf_s + PULSE_S + time.monotonic() - began if asked_s is None else 0.0
        if host is node.joined_host:
            _tell(node, deaf_s if asked_s is None else asked_s)


async def _ask(node: NodeState, host: NodeHost) -> float | None:
    """Returns for how long Spark has not answered, or None if the node host does not answer either. Keeps what Spark says of
    itself for the node's samples."""
    try:
        answer = await host.call("pulse", timeout_s=PULSE_TIMEOUT_S)
    except HostError as error:
        return None if error.code == "TIMEOUT" else 0.0  # any other error is an answer, or is handled elsewhere
    numbers = answer.get("numbers")
    node.numbers = numbers if isinstance(numbers, dict) else {}
    silent_s = answer.get("silent_s")
    return min(float(silent_s), 1e6) if isinstance(silent_s, int | float) and silent_s > 0 else 0.0


def _tell(node: NodeState, silent_s: float) -> None:
    since_ms = now_ms() - int(silent_s * 1000) if silent_s >= SILENCE_S else 0
    known_ms = node.status.silent_since_ms
    reason = (node.status.silent_reason or node.want_of_processes) if since_ms else ""
    if bool(since_ms) != bool(known_ms) or reason != node.status.silent_reason:
        node.say(f"Spark has answered nothing for {silent_s:.0f} s. {reason}".strip() if since_ms else "Spark answers again")
        node.update(silent_reason=reason)
    # If the machine slept or the whole node was stopped, that time is not silence: the start of the silence moves.
    if not since_ms or not known_ms or since_ms - known_ms > SILENCE_S * 1000:
        node.update(silent_since_ms=since_ms)
