"""Websockets at the edge: their limits, and answers in place of a handshake.

An application that accepts websockets authenticates and authorises as for any request, before it accepts. It refuses with an
ordinary HTTP answer, which it sends through `refusing`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Message, Send
from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from brickyard.api.edge.bounded import Bounded

MESSAGE_BYTES = 4 << 20  # of one message; the connection is closed (1009) at the header of a longer one
PING_S = 20.0  # a client that does not answer a ping for as long is gone


class BoundedWebsocket(Bounded, WebSocketsSansIOProtocol):
    """One connection, from the handshake on. At most one message is read ahead."""

    def __init__(self, config: Config, server_state: ServerState, *rest: Any, **named: Any) -> None:
        super().__init__(config, server_state, *rest, **named)
        self.server_state = server_state

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.count(self.client[0] if self.client else "")

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # uvicorn takes a refusal for a bug and logs it as one


def refusing(send: Send) -> Send:
    """Sends an HTTP answer to a client that has asked for a websocket."""

    async def refuse(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return refuse
