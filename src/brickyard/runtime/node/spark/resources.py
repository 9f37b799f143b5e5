"""GPUs as Spark's resource `gpu`. Its addresses are positions in CUDA_VISIBLE_DEVICES, as CUDA counts: 0, 1, ...

A worker offers all its GPUs. Executors take all of their worker's, and a task takes one, unless the cluster's conf says
otherwise. With local threads Spark has no resources for tasks: there the driver has the GPUs (`sc.resources`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..jvm.launch import LaunchError

if TYPE_CHECKING:
    from ..documents import AssignmentDocument

WORKER, DRIVER = "spark.worker", "spark.driver"
_NAMES = ("resource.gpu.amount", "resource.gpu.discoveryScript", "resourcesFile")
OWN = tuple(f"{part}.{name}" for part in (WORKER, DRIVER) for name in _NAMES)
_EXECUTOR, _TASK = "spark.executor.resource.gpu.amount", "spark.task.resource.gpu.amount"


def write(assignment: AssignmentDocument, node_dir: str, part: str) -> str:
    """Writes which GPUs this node has, in Spark's format, and returns the file; "" without GPUs. Raises OSError."""
    gpus = assignment.get("gpus") or 0
    if not gpus:
        return ""
    addresses = [str(number) for number in range(gpus)]
    file = Path(_file(node_dir, part))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([{"id": {"componentName": part, "resourceName": "gpu"}, "addresses": addresses}]))
    return str(file)


def of_worker(assignment: AssignmentDocument) -> dict[str, str]:
    """Returns a worker's settings."""
    gpus = assignment.get("gpus") or 0
    return {f"{WORKER}.resource.gpu.amount": str(gpus)} if gpus else {}


def of_driver(assignment: AssignmentDocument, values: Mapping[str, str], node_dir: str, *, single: bool) -> dict[str, str]:
    """Returns a driver's settings, given all its other ones. Raises LaunchError if no task could ever run."""
    own, each_worker = assignment.get("gpus") or 0, assignment.get("worker_gpus") or 0
    found = {f"{DRIVER}.resource.gpu.amount": str(own), f"{DRIVER}.resourcesFile": _file(node_dir, DRIVER)} if own else {}
    if each_worker and not single:
        found |= {_EXECUTOR: values.get(_EXECUTOR, str(each_worker)), _TASK: values.get(_TASK, "1")}
    for key in (_EXECUTOR, _TASK):
        asked = values.get(key, "0")
        if single and _above(asked, 0):
            raise LaunchError(
                f"{key} is {asked}, and a cluster without workers runs tasks on the driver's threads, which Spark gives no "
                "resources: no task could run. Remove it; all code on the cluster sees its GPUs."
            )
        if not single and _above(asked, each_worker):
            raise LaunchError(
                f"{key} is {asked}, and a worker has {each_worker} GPUs: no task could run. Lower it, or choose a node type with "
                "more GPUs."
            )
    return found


def _file(node_dir: str, part: str) -> str:
    return f"{node_dir}/work/{part}.resources.json"


def _above(asked: str, limit: int) -> bool:
    """Whether a setting asks for more. What is no number is Spark's to refuse."""
    try:
        return float(asked) > limit
    except ValueError:
        return False
