"""Operations of nodes (`domain/nodeops.py`), as services call them."""

from __future__ import annotations

import msgspec

from brickyard.domain.cluster import Instance
from brickyard.domain.nodeops import AgentClient, AgentRefused, NodeOp, Reply, Request
from brickyard.nodes.tokens import InstanceTokens


class NodeCalls:
    """One per server."""

    def __init__(self, *, client: AgentClient, tokens: InstanceTokens) -> None:
        self._client = client
        self._tokens = tokens

    async def ask(self, node: Instance, op: NodeOp[Request, Reply], request: Request) -> Reply:
        """Have the node do it. Raises AgentUnreachable, AgentRefused."""
        path, body = op.call(request)
        token = self._tokens.server_token(node.instance_id)
        answer = await self._client.call(node.endpoint, token, op.method, path, body)
        try:
            return msgspec.convert(answer, op.reply)
        except msgspec.ValidationError as error:  # what a node says is what its users make of it
            raise AgentRefused("PROTOCOL", f"the node's answer to {op.name} cannot be read: {error}") from error
