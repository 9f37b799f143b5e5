"""Discovery of the host. Identities are in `scim`, tokens in `tokens`."""

from __future__ import annotations

import uuid

from brickyard.api.context import ApiContext
from brickyard.api.databricks import wire
from brickyard.api.databricks.oauth import ServerRequest, oidc_endpoint
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Auth, Operation
from brickyard.domain.caller import Caller


async def _discovery(ctx: ApiContext, caller: Caller, request: ServerRequest) -> wire.Discovery:
    return wire.Discovery(
        oidc_endpoint=oidc_endpoint(request.base_url),
        account_id=_account_id(ctx.workspace_id),
        workspace_id=ctx.workspace_id,
        host_type="workspace",
    )


def _account_id(workspace_id: str) -> str:
    """Each workspace is its own account. The account id is a UUID that stays the same for the life of the workspace."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"brickyard {workspace_id}"))


_DISCOVERY = Group("discovery", lambda ctx: ctx, "/.well-known/databricks-config", needs=(), auth=Auth.NONE)
OPERATIONS: tuple[Operation, ...] = (
    _DISCOVERY("GET", _discovery, "Information about this host", name="get", with_base_url=True),
)
