"""Tells the handler of a call whether its answer has reached the client."""

from __future__ import annotations

import asyncio

from starlette.types import Receive

from brickyard.api.edge.streaming import until_gone
from brickyard.domain.delivery import Delivery, delivery_here


class Delivering:
    """Begins when the whole body was read; `settle` ends it."""

    def __init__(self, receive: Receive) -> None:
        self._delivery = Delivery()
        self._watch = asyncio.create_task(until_gone(receive))
        self._watch.add_done_callback(lambda _: self._delivery.gone.set())
        delivery_here.set(self._delivery)

    @property
    def lost(self) -> bool:
        """Whether the client is gone. After the answer was written, each connection looks so."""
        return self._watch.done()

    async def settle(self, *, lost: bool) -> None:
        """Say what became of the answer."""
        self._watch.cancel()
        if lost:
            self._delivery.lost()
        else:
            await self._delivery.arrived()
