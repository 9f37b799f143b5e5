"""Calls of node operations (`domain/nodeops.py`) for services."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from brickyard.domain.cluster import Instance
from brickyard.domain.nodeops import (
    COMMAND_EXECUTE,
    AgentClient,
    AgentRefused,
    CommandState,
    NewCommand,
    NewContext,
    NodeOp,
    OfCommand,
    OpenPort,
    Reply,
    Request,
)
from brickyard.domain.tracing import Attributes, Tracing
from brickyard.nodes.tokens import InstanceTokens
from brickyard.nodes.tunnels import Tunnels


class NodeCalls:
    """One per server. `by_provider`: the clients for instances of providers with these names; `client` is for all others."""

    def __init__(
        self,
        *,
        client: AgentClient,
        tokens: InstanceTokens,
        by_provider: Mapping[str, AgentClient] = MappingProxyType({}),
        tunnels: Tunnels | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._client = client
        self._by_provider = by_provider
        self._tokens = tokens
        self._tunnels = tunnels
        self._tracing = tracing

    async def ask(self, node: Instance, op: NodeOp[Request, Reply], request: Request) -> Reply:
        """Has the node perform the operation. Raises AgentUnreachable or AgentRefused."""
        if (tracing := self._tracing) is None:
            return await self._ask(node, op, request)
        about: Attributes = {"brickyard.instance.id": node.instance_id, "brickyard.cluster.id": node.cluster_id}
        if isinstance(request, NewCommand | OfCommand):
            about["brickyard.command.id"] = request.command_id
        with tracing.child(f"node {op.name}", about, calls=True, late=op is COMMAND_EXECUTE):
            reply = await self._ask(node, op, request)
        if isinstance(reply, CommandState) and reply.trace is not None:
            tracing.command(reply.trace, about)
        return reply

    async def _ask(self, node: Instance, op: NodeOp[Request, Reply], request: Request) -> Reply:
        if isinstance(request, NewContext):  # so that the agent can ask for secrets in the name of the context's user
            ticket = self._tokens.ticket(node.instance_id, request.context_id, request.user)
            request = msgspec.structs.replace(request, ticket=ticket)
        path, body = op.call(request)
        token = self._tokens.server_token(node.instance_id)
        client = self._by_provider.get(node.provider, self._client)
        answer = await client.call(node.endpoint, token, op.method, path, body)
        try:
            reply = msgspec.convert(answer, op.reply)
        except msgspec.ValidationError as error:  # users control what a node answers
            raise AgentRefused("PROTOCOL", f"the node's answer to {op.name} cannot be read: {error}") from error
        if isinstance(reply, OpenPort) and self._tunnels is not None and node.endpoint.startswith("https://"):
            # A way of the agent's own leads nowhere here: it is a path on the node's machine.
            return msgspec.structs.replace(reply, way=await self._tunnels.open(node, reply.port))
        return reply
