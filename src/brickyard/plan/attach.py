"""Who may run code on a cluster, and what kind: `single_user_name` and `workload_type`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.node import Role
from brickyard.domain.spec import ClientsTypes, ClusterSpec


class Client(StrEnum):
    """The kinds of work that a cluster may refuse, named as in `workload_type.clients`, which counts SQL as notebooks."""

    NOTEBOOKS = "notebooks"  # anything interactive: execution contexts, Spark Connect
    JOBS = "jobs"
    SQL = "sql"  # the only one that a SQL warehouse takes


def takes(spec: ClusterSpec, client: Client) -> bool:
    """Whether a cluster accepts that kind of work: all kinds, unless its workload_type forbids it."""
    clients = (spec.workload_type.clients if spec.workload_type else None) or ClientsTypes()
    return (clients.jobs if client is Client.JOBS else clients.notebooks) is not False


def cluster_refusal(cluster: Cluster, *, user_name: str, client: Client | None = None) -> str:
    """Why the user may not do that kind of work on the cluster (None: only view it), or "" if they may."""
    if cluster.warehouse is not None and client not in (None, Client.SQL):
        return (
            f"Cluster {cluster.cluster_id} is a SQL warehouse, which only runs SQL statements: use a SQL client or"
            " /api/2.0/sql/statements. Run other code on a cluster."
        )
    return attach_refusal(cluster.spec, cluster_id=cluster.cluster_id, user_name=user_name, client=client)


def attach_refusal(spec: ClusterSpec, *, cluster_id: str, user_name: str, client: Client | None = None) -> str:
    """The same for a cluster that is no SQL warehouse. The first message is Databricks' wording."""
    owner = spec.single_user_name
    if owner and owner != user_name:
        return (
            f"Single-user check failed: user '{user_name}' attempted to run a command on single-user cluster {cluster_id}, but"
            f" the single user of this cluster is '{owner}'"
        )
    if client is not None and not takes(spec, client):
        field = Client.JOBS if client is Client.JOBS else Client.NOTEBOOKS
        return (
            f"Cluster {cluster_id} does not accept {client}: its workload_type.clients.{field} is false. Edit the cluster, or"
            " use another one."
        )
    return ""


def driver_instance(cluster: Cluster, instances: Sequence[Instance]) -> Instance | None:
    """The driver's instance in the current incarnation, if its agent can be called."""
    return _driver_of(cluster.incarnation, instances)


def finishing_driver(cluster: Cluster, instances: Sequence[Instance]) -> Instance | None:
    """The driver's instance while the cluster lets finish what runs there, before it stops or restarts."""
    wait = cluster.workbench.graceful
    return _driver_of(wait.generation, instances) if wait.pending else None


def _driver_of(generation: int, instances: Sequence[Instance]) -> Instance | None:
    mine = (each for each in instances if each.role in (Role.DRIVER, Role.SINGLE) and each.generation == generation)
    return next((each for each in mine if each.live and each.endpoint), None)
