"""The workspace's files as this node sees them: at their own names, or elsewhere where the node has no walls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# The name of a tree at the top of every path -> the variable that says where it is, and how Spark writes its paths.
_TREES = {
    "dbfs": ("DBFS_ROOT", "dbfs:"),
    "Volumes": ("VOLUMES_ROOT", "dbfs:/Volumes"),
    "Workspace": ("WORKSPACE_ROOT", "file:/Workspace"),
}
FULL = "BRICKYARD_DBFS_FULL"  # variable that names a file, which exists while the workspace's files take more than they may
OVER_QUOTA = "the workspace's files (dbfs:/, /Volumes, /Workspace) take more than they may (dbfs_gb, or their number)"
PREFIXES = {name: prefix for name, (_, prefix) in _TREES.items()}


def roots(env: Mapping[str, str]) -> dict[str, str]:
    """Returns name -> directory."""
    return {name: env.get(variable) or f"/{name}" for name, (variable, _) in _TREES.items()}


def over_quota(env: Mapping[str, str]) -> bool:
    """Whether nothing may be added to them now."""
    mark = env.get(FULL, "")
    return bool(mark) and Path(mark).exists()


def local_path(path: str, places: Mapping[str, object]) -> str:
    """Returns the file on this node for a path of `dbfs:/`, as Spark resolves it; `places` are the `roots`."""
    top, _, rest = path.lstrip("/").partition("/")
    return f"{places[top]}/{rest}" if top in places else f"{places['dbfs']}/{path.lstrip('/')}"
