"""JOIN: give the node its role."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import msgspec

from brickyard.agent.converge import Stage
from brickyard.agent.host import HostError
from brickyard.agent.libraries import jars
from brickyard.agent.showing import forbid_links, show
from brickyard.agent.state import NodeState
from brickyard.agent.steps import libraries, start
from brickyard.agent.steps.work import Work
from brickyard.domain.node import Phase
from brickyard.domain.variables import depend_on
from brickyard.runtime.node.documents import AssignmentDocument, Become
from brickyard.sandbox.view import CLUSTER, WORKSPACE

_NEEDS = "It takes Linux 5.14 or newer; or choose SINGLE_USER or NONE."


async def _join(node: NodeState) -> None:
    wanted = node.assignment
    if wanted.user_isolation and node.status.isolation != "namespaces":
        raise HostError(
            "WORKSPACE_CONFIGURATION_ERROR",
            "data_security_mode USER_ISOLATION keeps users apart in cells of a node, which take namespaces that Brickyard makes. "
            f"This node's isolation: {node.status.isolation}. Allow namespaces, or choose SINGLE_USER or NONE.",
        )
    if wanted.user_isolation:
        await _seal(node)
    node.update(phase=Phase.STARTING)
    await node.networks.join(wanted)
    found = jars.installed(libraries.target_of(node)) if node.is_driver else ()
    asked: Become = {
        **start.settings(node, wanted.role),
        "assignment": cast(
            AssignmentDocument, msgspec.to_builtins(msgspec.structs.replace(wanted, spark_env_vars=node.variables))
        ),  # tests/node/test_documents.py compares them
        "cluster_dir": _seen(node, node.config.cluster_dir(node.cluster_id), CLUSTER),
        "cluster_workspace": _seen(node, node.config.workspace_of(node.cluster_id), WORKSPACE),
        "jars": found,
        "node_variables": sorted(depend_on(wanted.spark_env_vars)),
        "metastore": node.config.has_metastore,
    }
    await node.call("become", **asked)
    node.current = msgspec.structs.replace(node.current, stage=Stage.JOINED, master_url=wanted.master_url)


async def _seal(node: NodeState) -> None:
    """Makes the node's Python environment, and what init scripts have added to the class path, read-only for everything on the
    node, since the code of all users runs with it. Init scripts have run by now; the agent can still install. And has Spark
    follow no links where users write: they could lead to what only Spark sees."""
    place = node.config.python_dir
    sealed = {str(place): place} | {target: path for path, target in node.config.databricks.items()}
    if why := await show(node, sealed, read_only=True):
        raise HostError(
            "WORKSPACE_CONFIGURATION_ERROR",
            f"data_security_mode USER_ISOLATION makes the node's Python environment read-only, and that failed: {why}. {_NEEDS}",
        )
    if why := await forbid_links(node, (*(tree.target for tree in node.config.trees), CLUSTER, WORKSPACE)):
        raise HostError(
            "WORKSPACE_CONFIGURATION_ERROR",
            "data_security_mode USER_ISOLATION has Spark follow no links in the workspace's files, and that failed: "
            f"{why}. {_NEEDS}",
        )


def _seen(node: NodeState, shared: Path | None, target: str) -> str:
    """Returns where the node sees a directory that its cluster's nodes share, or "" if there is none."""
    if shared is None:
        return ""
    return target if node.walled else str(shared)


WORK = Work(_join, progress="taking its role", limit_s=300.0)
