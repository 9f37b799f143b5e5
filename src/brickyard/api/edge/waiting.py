"""Uploads wait where other calls are refused with 429 or 503.

Clients repeat a refused call, and several versions of the Databricks SDK (0.20 to 0.36) do that with a stream that they have read
already: an upload that was refused once left an empty file.
"""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

from brickyard.api.edge.bodies import Disconnected


class Waiting:
    """One call that waits for as long as its connection lives; see `store.patience`. Read its body through `receive`."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._arrived = False  # the whole body: only the end of the connection is still to come

    async def receive(self) -> Message:
        message = await self._receive()
        self._arrived = message["type"] == "http.request" and not message.get("more_body", False)
        return message

    async def pause(self, seconds: float) -> None:
        """Raises Disconnected if the client goes. A client that goes while its body is still to be read is noticed then."""
        try:
            async with asyncio.timeout(seconds):
                if self._arrived and (await self._receive())["type"] == "http.disconnect":
                    raise Disconnected
                await asyncio.sleep(seconds)
        except TimeoutError:
            return
