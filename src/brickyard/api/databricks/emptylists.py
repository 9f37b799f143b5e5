"""Lists that dashboards, terminal programs, the CLI and Terraform's exporter ask for first: empty, since there is nothing of the
kind. What would make or change something of the kind is no operation, and so 404 ENDPOINT_NOT_FOUND."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from brickyard.api.edge.group import IN_WORKSPACE, Group
from brickyard.api.edge.registry import Operation
from brickyard.domain.caller import Caller
from brickyard.features.emptylists.service import EmptyLists


class _List(NamedTuple):
    """`answer` is the whole answer, as databricks-sdk reads it."""

    name: str
    what: str
    endpoint: str
    answer: dict[str, Any]


_LISTS = (
    _List("repos", "Git folders", "GET /api/2.0/repos", {"repos": []}),
    _List("git_credentials", "Credentials for Git", "GET /api/2.0/git-credentials", {"credentials": []}),
    _List("pipelines", "Pipelines", "GET /api/2.0/pipelines", {"statuses": []}),
    _List("instance_profiles", "Instance profiles", "GET /api/2.0/instance-profiles/list", {"instance_profiles": []}),
    _List("serving_endpoints", "Serving endpoints", "GET /api/2.0/serving-endpoints", {"endpoints": []}),
    _List("experiments", "MLflow experiments", "GET /api/2.0/mlflow/experiments/list", {"experiments": []}),
    _List("search_experiments", "MLflow experiments", "POST /api/2.0/mlflow/experiments/search", {"experiments": []}),
)


def _operation(each: _List) -> Operation:
    body = msgspec.json.encode(each.answer)

    async def empty(lists: EmptyLists, caller: Caller) -> bytes:
        await lists.look(caller)
        return body

    return _LOOK(each.endpoint, empty, f"{each.what}: none", name=each.name, only_reads=True)


_LOOK = Group("empty_lists", lambda ctx: ctx.services.empty_lists, needs=IN_WORKSPACE)
OPERATIONS: tuple[Operation, ...] = tuple(map(_operation, _LISTS))
