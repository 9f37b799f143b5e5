"""How the operations of the /v1/clusters API are declared. Names begin with gpu_: audit logs and rate limits know them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from brickyard.api.edge.registry import Handler, Need, Operation
from brickyard.api.v1.dialect import V1
from brickyard.domain.access import ObjectKind, Permission


def on_cluster(permission: Permission, of: str = "cluster_id") -> Need:
    """A permission on the cluster that the field `of` names."""
    return Need(permission, ObjectKind.CLUSTER, of)


SEE = (on_cluster(Permission.CAN_ATTACH_TO),)
RESTART = (on_cluster(Permission.CAN_RESTART),)
MANAGE = (on_cluster(Permission.CAN_MANAGE),)


def declared(
    name: str,
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    *,
    request: type[msgspec.Struct],
    response: type[msgspec.Struct] | None,
    needs: tuple[Need, ...],
    statuses: tuple[int, ...] = (200,),
    errors: tuple[int, ...] = (404,),
    from_headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
    makes_work: bool = False,
    may_have_body: bool = False,
) -> Operation:
    """An operation in this dialect."""
    return Operation(
        name=name,
        method=method,
        paths=(path,),
        handler=handler,
        request=request,
        response=response,
        summary=summary,
        needs=needs,
        dialect=V1,
        statuses=statuses,
        errors=errors,
        from_headers=from_headers or {},
        content_type=content_type,
        makes_work=makes_work,
        may_have_body=may_have_body,
    )
