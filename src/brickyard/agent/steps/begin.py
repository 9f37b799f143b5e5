"""BEGIN: make the directories of a new generation."""

from __future__ import annotations

import asyncio
import os

import msgspec

from brickyard.agent.converge import Stage
from brickyard.agent.host import HostError
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.domain.node import Assignment, Phase, Role
from brickyard.domain.places import Kind
from brickyard.logs.delivery import DeliveryRecord
from brickyard.logs.keep import DELIVERY_RECORD, NodeRecord
from brickyard.logs.transfers import credentials
from brickyard.machine import files


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
    for path in node.config.databricks:
        path.mkdir(mode=0o700, parents=True)
    node.hold_logs()


def make_shared(node: NodeState, wanted: Assignment) -> None:
    """Makes the cluster's directories. If a driver starts, removes what the last driver left there for itself."""
    workspace = node.config.workspace_of(wanted.cluster_id)
    if workspace is not None:
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    shared = node.config.cluster_dir(wanted.cluster_id)
    if shared is not None:
        shared.mkdir(mode=0o700, parents=True, exist_ok=True)
        if wanted.role is not Role.WORKER:
            files.make_empty(shared / "scratch")


def link_workspace(node: NodeState, wanted: Assignment) -> None:
    """Without isolation: lets programs find the workspace directory at a path that is known before the cluster is."""
    workspace = node.config.workspace_of(wanted.cluster_id)
    if workspace is not None:
        node.config.workspace_link.unlink(missing_ok=True)
        node.config.workspace_link.symlink_to(workspace)


def record(node: NodeState, wanted: Assignment) -> None:
    """Records whose node this is, for the provider that cleans up after an agent that was killed."""
    sealed = (wanted.sealed,) if wanted.sealed else ()
    node.record(NodeRecord(cluster_id=wanted.cluster_id, generation=wanted.generation, role=wanted.role, sealed=sealed))
    delivery = node.config.directory / DELIVERY_RECORD
    delivery.unlink(missing_ok=True)
    node.delivery_env = {}
    if wanted.logs is not None and wanted.logs.kind == Kind.S3:
        node.delivery_env = credentials(
            Kind.S3, cluster=node.variables, machine=os.environ, endpoint=wanted.logs.endpoint,
            rules=node.config.machine_credentials,
        )  # fmt: skip
    if wanted.logs is not None:
        name = f"{node.config.instance_id}-{wanted.generation}"
        begun = DeliveryRecord(
            destination=wanted.logs, cluster_id=wanted.cluster_id, node=name, role=wanted.role, elsewhere=node.config.encrypted
        )
        files.write_atomic(delivery, msgspec.json.encode(begun))


# Whole: it adopts the generation first, so an assignment that comes meanwhile, with the driver's address say, finds it begun.
WORK = Work(_begin, progress="preparing the node", whole=True)
