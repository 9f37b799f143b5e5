"""RELEASE: end everything of the generation, keep its logs, clean its directories."""

from __future__ import annotations

import asyncio
from pathlib import Path

from brickyard.agent.converge import Current
from brickyard.agent.delivering import deliver
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.domain.node import NodeStatus
from brickyard.logs.keep import NodeRecord, keep_node_logs
from brickyard.machine import files

STOP_GRACE_S = 4.0
FINAL_DELIVERY_S = 3.0  # what takes longer is left to a server
FINAL_UPLOAD_S = 10.0  # an upload begins with a new process, and not every provider lets a server do it instead


async def _release(node: NodeState) -> None:
    node.say(f"releasing the node of cluster {node.cluster_id} (generation {node.current.generation})")
    await node.end_host(grace_s=STOP_GRACE_S)
    await asyncio.to_thread(give_room_back, node)
    await asyncio.to_thread((node.config.directory / "node.json").unlink, missing_ok=True)
    node.current = Current()
    node.manifest = None
    node.use.end()
    node.cluster_id = ""
    kept = ("assignment_version", "generation", "isolation", "network", "host")
    node.replace_status(NodeStatus(**{name: getattr(node.status, name) for name in kept}))


def give_room_back(node: NodeState) -> None:
    """Runs on a thread: keeps the logs and removes everything else. No process of the node is alive any more.

    Removes the rest first: on a full disk, only that makes room for the logs.
    """
    config = node.config
    node.restore_logs()
    files.remove_tree(config.node_dir, keep="logs")
    deliver(node, final=True, limit_s=FINAL_UPLOAD_S if node.delivery_env else FINAL_DELIVERY_S)
    record = NodeRecord(cluster_id=node.cluster_id, generation=node.current.generation, role=node.role)
    keep_node_logs(
        config.directory, Path(config.logs_dir), instance_id=config.instance_id, node=record, redact=node.redactor.data
    )
    files.remove_tree(config.node_dir)
    files.remove_tree(config.libraries_dir)


WORK = Work(_release, whole=True)
