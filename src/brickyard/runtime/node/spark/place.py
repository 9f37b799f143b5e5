"""Where the parts of a node are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..trees import FULL, roots


class Place(NamedTuple):
    """The addresses and directories of a node's parts."""

    host: str  # address for the cluster's other nodes: only RPC and blocks bind to it
    node_dir: str
    ui_key: str  # base64url key of the tokens that open the web UI
    dbfs_dir: str = "/dbfs"
    volumes_dir: str = "/Volumes"
    workspace_dir: str = "/Workspace"
    dbfs_full: str = ""  # file that exists while these take more than they may
    cluster_dir: str = ""  # visible to all nodes of the cluster and to no others; "" if there is none, as in training
    cluster_workspace: str = ""  # likewise, and it stays when the cluster stops; users write it
    metastore: bool = False  # whether the agent leads to the workspace's metastore
    node_variables: tuple[str, ...] = ()  # variables of the cluster whose values are this node's own
    private_host: str = ""  # address that every other port binds to; "": `host`

    @property
    def ports_host(self) -> str:
        return self.private_host or self.host

    @property
    def older_catalog_dir(self) -> str:
        """Where drivers kept a catalog for each cluster, before there was a metastore."""
        return f"{self.cluster_dir}/catalog"

    @property
    def older_writes_dir(self) -> str:
        """Where they kept records of unfinished writes."""
        return f"{self.cluster_dir}/writes"

    @property
    def scratch_dir(self) -> str:
        """For files that last only as long as the driver."""
        return f"{self.cluster_dir}/scratch"


def tree_dirs(env: Mapping[str, str]) -> dict[str, Any]:
    """Returns where a node sees the workspace's files, as fields of Place."""
    return {"dbfs_full": env.get(FULL, ""), **{f"{name.lower()}_dir": root for name, root in roots(env).items()}}
