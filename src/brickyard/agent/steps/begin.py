"""BEGIN: make the directories of a new generation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from brickyard.agent import files
from brickyard.agent.converge import Stage
from brickyard.agent.delivery import DeliveryRecord
from brickyard.agent.host import HostError
from brickyard.agent.keep import DELIVERY_RECORD, NodeRecord
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.domain.node import Assignment, Phase, Role


async def _begin(node: NodeState) -> None:
    wanted = node.assignment
    reason, node.cold_reason = node.cold_reason or node.status.warm_error, ""
    node.adopt(wanted, Stage.EMPTY, phase=Phase.PREPARING, cold_reason=reason)
    await asyncio.to_thread(make_directories, node)
    await asyncio.to_thread(make_shared, node, wanted)
    await asyncio.to_thread(record, node, wanted)
    refuse(wanted)


def refuse(wanted: Assignment) -> None:
    """Raises HostError if the server says that this node must not start."""
    if wanted.refusal is not None:
        raise HostError(wanted.refusal.code, wanted.refusal.message)


def make_directories(node: NodeState) -> None:
    """Makes the node's own directories, empty."""
    top = node.config.node_dir
    files.remove_tree(top)  # a predecessor may have been killed
    for path in (top, top / "work", top / "tmp", top / "home", top / "logs"):
        path.mkdir(mode=0o700)


def make_shared(node: NodeState, wanted: Assignment) -> Path | None:
    """Makes the cluster's directory. If a driver starts, removes what the last driver left there for itself."""
    shared = node.config.cluster_dir(wanted.cluster_id)
    if shared is not None:
        shared.mkdir(mode=0o700, parents=True, exist_ok=True)
        if wanted.role is not Role.WORKER:
            files.make_empty(shared / "scratch")
    return shared


def record(node: NodeState, wanted: Assignment) -> None:
    """Records whose node this is, for the provider that cleans up after an agent that was killed."""
    record = NodeRecord(cluster_id=wanted.cluster_id, generation=wanted.generation, role=wanted.role)
    files.write_atomic(node.config.directory / "node.json", msgspec.json.encode(record))
    delivery = node.config.directory / DELIVERY_RECORD
    delivery.unlink(missing_ok=True)
    if wanted.logs is not None:
        name = f"{node.config.instance_id}-{wanted.generation}"
        begun = DeliveryRecord(destination=wanted.logs, cluster_id=wanted.cluster_id, node=name, role=wanted.role)
        files.write_atomic(delivery, msgspec.json.encode(begun))


WORK = Work(_begin, progress="preparing the node")
