"""Files that a cluster's Spark configuration has SparkSubmit fetch (`spark.jars` and the like), looked for before Java starts.

SparkSubmit leaves out a local file that does not exist, with a line in its log, and the first command fails much later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from .. import trees
from .place import Place

FILES = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_WILD = re.compile(r"[*?\[]")


def missing(conf: Mapping[str, str], place: Place) -> str:
    """Returns a sentence about the first file that does not exist, for users, or "". Files elsewhere (`s3a:`, `https:`) count as
    there: only Spark can look for them, and its failure names them."""
    for key in FILES:
        for name in filter(None, (each.strip() for each in conf.get(key, "").split(","))):
            if not _exists(name, place):
                return f"{key} names {name}, which does not exist. {_remedy(name, place)}"
    return ""


def _exists(name: str, place: Place) -> bool:
    paths = candidates(name, place)
    return paths is None or any(map(_is_there, paths))


def _is_there(path: str) -> bool:
    return any(True for _ in Path("/").glob(path.lstrip("/"))) if _WILD.search(path) else Path(path).exists()


def candidates(name: str, place: Place) -> tuple[str, ...] | None:
    """Returns the files on this node that a name of the configuration may mean, or None if it means none of them. Spark takes
    a name without a scheme for a file of the node, and decodes what is percent-encoded if the whole is a URI."""
    found = _SCHEME.match(name)
    scheme, path = (found.group(1).lower(), name[found.end() :]) if found else ("file", name)
    if scheme not in ("file", "local", "dbfs") or "{" in path:  # braces: Hadoop's patterns, which Python has not
        return None
    path = "/" + path.partition("#")[0].lstrip("/")
    roots = {"dbfs": place.dbfs_dir, "Volumes": place.volumes_dir, "Workspace": place.workspace_dir}
    inside = scheme == "dbfs" or path.split("/")[1] in roots
    return tuple(trees.local_path(each, roots) if inside else each for each in dict.fromkeys((path, unquote(path))))


def _remedy(name: str, place: Place) -> str:
    if not _SCHEME.match(name):
        other = f"dbfs:/{name.lstrip('/')}"
        if _exists(other, place):
            return f"Without a scheme it is a file of the node: write {other} for the workspace's file."
    return "Upload the file, or correct the cluster's Spark configuration."
