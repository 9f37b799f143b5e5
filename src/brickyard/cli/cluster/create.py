"""`brickyard cluster create`: a cluster of the Databricks API, from a few options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import click

from brickyard.cli import CliError, printable
from brickyard.cli.api import Api, open_api
from brickyard.cli.cluster.found import completing, pairs
from brickyard.cli.cluster.operations import show, wait_option
from brickyard.cli.nodetypes import smallest_node_type
from brickyard.cli.options import json_option, place


class _Kind(NamedTuple):
    """What can be named by its id or its name: the call that lists it, and the fields."""

    what: str
    path: str
    of: str
    id: str
    name: str

    def find(self, workspace: Api, text: str) -> Any:
        """What has that id, or the only one with that name. Raises CliError."""
        rows = workspace.call("GET", self.path).get(self.of) or []
        found = [row for row in rows if row[self.id] == text] or [row for row in rows if row[self.name] == text]
        if len(found) > 1:
            raise CliError(f"{len(found)} {self.what} are called {text!r}. Name one by its id.")
        if not found:
            raise CliError(f"there is no {text!r} among the {self.what}.")
        return found[0]


_NODE_TYPES = "/api/2.1/clusters/list-node-types"
_POLICY = _Kind("cluster policies", "/api/2.0/policies/clusters/list", "policies", "policy_id", "name")
_POOL = _Kind("instance pools", "/api/2.0/instance-pools/list", "instance_pools", "instance_pool_id", "instance_pool_name")


@click.command("create")
@click.argument("name")
@click.option("--workers", default="0", show_default=True, metavar="N|MIN:MAX", help="A number, or a range for autoscale.")
@click.option(
    "--runtime",
    shell_complete=completing("/api/2.1/clusters/spark-versions", "versions", "key", shown="name"),
    help="The key of a runtime, like 17.3.x-scala2.13. Default: the newest with long-term support.",
)
@click.option(
    "--node-type",
    shell_complete=completing(_NODE_TYPES, "node_types", "node_type_id", shown="description"),
    help="Default: the smallest one.",
)
@click.option(
    "--policy",
    shell_complete=completing(*_POLICY[1:], shown=_POLICY.name),
    help="Id or name of a cluster policy. Its defaults fill in what is left out.",
)
@click.option(
    "--pool",
    shell_complete=completing(*_POOL[1:], shown=_POOL.name),
    help="Id or name of an instance pool, instead of --node-type.",
)
@click.option("--idle-minutes", type=int, help="Stop when nothing has run for so long; 0: never.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Set an environment variable; may be repeated.")
@click.option("--conf", "confs", multiple=True, metavar="KEY=VALUE", help="Set a Spark configuration; may be repeated.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Set a tag; may be repeated.")
@wait_option
@json_option
@place
def create(
    name: str,
    *,
    workers: str,
    runtime: str | None,
    node_type: str | None,
    policy: str | None,
    pool: str | None,
    idle_minutes: int | None,
    variables: tuple[str, ...],
    confs: tuple[str, ...],
    tags: tuple[str, ...],
    wait: bool,
    as_json: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Create a cluster called NAME, which starts at once. Without workers it is a single node."""
    if node_type and pool:
        raise click.UsageError("--node-type and --pool are both given: a pool has its own node type. Leave one out.")
    spec: dict[str, Any] = {"cluster_name": name, **_size(workers)}
    given = {
        "spark_env_vars": pairs(variables, option="--env"),
        "spark_conf": pairs(confs, option="--conf"),
        "custom_tags": pairs(tags, option="--tag"),
    }
    spec |= {field: value for field, value in given.items() if value}
    if idle_minutes is not None:
        spec["autotermination_minutes"] = idle_minutes
    workspace = open_api(config_file, options)
    decided: set[str] = set()
    if policy:
        found = _POLICY.find(workspace, policy)
        spec |= {"policy_id": found["policy_id"], "apply_policy_default_values": True}
        decided = set(json.loads(found.get("definition") or "{}"))
    if pool:
        spec["instance_pool_id"] = _POOL.find(workspace, pool)["instance_pool_id"]
    if runtime or "spark_version" not in decided:
        spec["spark_version"] = runtime or _newest(workspace)
    if node_type or not (pool or decided & {"node_type_id", "instance_pool_id"}):
        spec["node_type_id"] = node_type or smallest_node_type(workspace.call("GET", _NODE_TYPES)["node_types"])
    cluster_id = workspace.call("POST", "/api/2.1/clusters/create", spec)["cluster_id"]
    view = workspace.call("GET", f"/v1/clusters/{cluster_id}")["data"]
    show(workspace, view, "start", wait=wait, as_json=as_json, called=f"{printable(name)} ({cluster_id})")


def _size(workers: str) -> dict[str, Any]:
    """`num_workers` or `autoscale`. Raises UsageError."""
    least, colon, most = workers.partition(":")
    if not least.isdecimal() or (colon and not most.isdecimal()):
        raise click.UsageError(f"--workers {workers!r} is neither a number nor MIN:MAX.")
    if colon:
        return {"autoscale": {"min_workers": int(least), "max_workers": int(most)}}
    return {"num_workers": int(least)} if int(least) else {"is_single_node": True, "kind": "CLASSIC_PREVIEW"}


def _newest(workspace: Api) -> str:
    """The key of the newest runtime with long-term support. Raises CliError."""
    versions = workspace.call("GET", "/api/2.1/clusters/spark-versions")["versions"]
    keys = [each["key"] for each in versions if "LTS" in each["name"]] or [each["key"] for each in versions]
    if not keys:
        raise CliError("this workspace offers no runtime. Name one with --runtime.")
    return str(max(keys, key=lambda key: [int(part) for part in key.split("-")[0].split(".") if part.isdecimal()]))
