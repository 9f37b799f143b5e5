"""The workspace's ASGI application: all operations behind one edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from starlette.types import ASGIApp

from brickyard.api import health
from brickyard.api.agents import protocol
from brickyard.api.browser import authorize, links, login, provider, webpage
from brickyard.api.context import ApiContext
from brickyard.api.databricks import (
    attached,
    audit,
    catalog,
    changes,
    clusters,
    commands,
    dbfs,
    emptylists,
    globalscripts,
    identity,
    ipaccess,
    items,
    jobs,
    libraries,
    logs,
    machine,
    metrics,
    namedgroups,
    notifications,
    oauth,
    permissions,
    policies,
    pools,
    queries,
    savedqueries,
    scim,
    scimabout,
    secrets,
    spend,
    statements,
    tables,
    tokens,
    transfers,
    volumes,
    warehouses,
    workspace,
    workspaceconf,
)
from brickyard.api.edge.authentication import Authenticator
from brickyard.api.edge.http import Edge
from brickyard.api.edge.openapi import openapi_operation
from brickyard.api.edge.registry import Operation
from brickyard.api.v1 import clusters as v1_clusters
from brickyard.api.v1 import ports as v1_ports
from brickyard.api.v1 import schedules as v1_schedules
from brickyard.api.v1 import snapshots as v1_snapshots


def all_operations() -> tuple[Operation, ...]:
    """All operations of the server."""
    groups = (
        clusters,
        items,
        v1_clusters,
        v1_ports,
        v1_schedules,
        v1_snapshots,
        libraries,
        changes,
        logs,
        machine,
        metrics,
        permissions,
        policies,
        pools,
        warehouses,
        statements,
        queries,
        savedqueries,
        globalscripts,
        attached,
        commands,
        dbfs,
        volumes,
        transfers,
        workspace,
        secrets,
        spend,
        jobs,
        identity,
        scim,
        scimabout,
        namedgroups,
        tokens,
        oauth,
        authorize,
        provider,
        login,
        links,
        webpage,
        audit,
        catalog,
        tables,
        emptylists,
        ipaccess,
        notifications,
        workspaceconf,
        protocol,
        health,
    )
    return tuple(operation for group in groups for operation in group.OPERATIONS)


def build_app(
    context: ApiContext,
    *,
    authenticator: Authenticator,
    operations: Iterable[Operation] | None = None,
    mounts: Mapping[str, ASGIApp] | None = None,
) -> ASGIApp:
    """The application.

    `mounts`, by path prefix, are applications for everything that is not an operation (static files, proxies); they do their
    own authentication. Adds the request metrics to `context.metrics`, so build one application per registry.
    """
    declared = all_operations() if operations is None else tuple(operations)
    served = (*declared, openapi_operation(declared))
    return Edge(context=context, authenticator=authenticator, operations=served, mounts=mounts or {})
