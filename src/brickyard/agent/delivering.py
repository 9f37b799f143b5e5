"""Delivers the logs of an agent's node from time to time (`delivery.py`), and reports how that went."""

from __future__ import annotations

import asyncio

from brickyard.agent.clock import now_ms
from brickyard.agent.state import NodeState
from brickyard.domain.node import LogDelivery
from brickyard.domain.places import Kind
from brickyard.logs.delivery import Delivery
from brickyard.logs.keep import DELIVERY_RECORD
from brickyard.logs.logfiles import LogDirectory
from brickyard.logs.objectdelivery import ObjectDelivery, uploader

LIMIT_S = 60.0  # for one pass
RETRY_S = 30.0  # after one that failed, if the next regular one is later
MAX_ERROR = 500


async def deliver_regularly(node: NodeState) -> None:
    """Delivers forever, while there is a node whose logs are to be delivered."""
    every_s = node.config.log_delivery_s
    while True:
        await asyncio.sleep(min(every_s, RETRY_S) if _failed(node) else every_s)
        generation = node.current.generation
        if node.host is None or not (node.config.directory / DELIVERY_RECORD).exists():
            continue
        error = await asyncio.to_thread(_pass, node, final=False, limit_s=LIMIT_S)
        if node.current.generation == generation:
            node.update(log_delivery=LogDelivery(attempted_ms=now_ms(), error=error))


def deliver(node: NodeState, *, final: bool, limit_s: float) -> None:
    """Runs on a thread."""
    if (node.config.directory / DELIVERY_RECORD).exists() and (error := _pass(node, final=final, limit_s=limit_s)):
        node.say(f"the logs cannot be delivered now: {error}")


def _pass(node: NodeState, *, final: bool, limit_s: float) -> str:
    record, redact = node.config.directory / DELIVERY_RECORD, node.redactor.data

    def make() -> Delivery | ObjectDelivery:
        delivery = Delivery(record, roots=node.config.log_roots, redact=redact)
        if delivery.record.destination.kind != Kind.S3:
            return delivery
        upload = uploader(
            delivery.record, env=node.delivery_env, python=node.config.python, network=node.networks.descriptors,
            limit_s=max(1.0, limit_s - 1),
        )  # fmt: skip
        return ObjectDelivery(record, upload=upload, redact=redact)

    logs = LogDirectory(node.config.node_dir / "logs")
    return node.deliveries.run(make, logs, final=final, limit_s=limit_s)[:MAX_ERROR]


def _failed(node: NodeState) -> bool:
    return node.status.log_delivery is not None and bool(node.status.log_delivery.error)
