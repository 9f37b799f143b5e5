"""What becomes of an answer: its client has got it, or was gone before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar


class Delivery:
    """Of one call. The handler of the call says what to do in either case. `gone` is set as soon as the client is known to have
    disconnected."""

    def __init__(self) -> None:
        self._losses: list[Callable[[], None]] = []
        self._successes: list[Callable[[], Awaitable[None]]] = []
        self.gone = asyncio.Event()

    def on_loss(self, act: Callable[[], None]) -> None:
        """Do this if the connection breaks off before the answer was sent. The last one is done first."""
        self._losses.insert(0, act)

    def on_success(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do this once the answer was sent."""
        self._successes.append(act)

    def lost(self) -> None:
        """The client has not got the answer."""
        for act in self._losses:
            act()

    async def arrived(self) -> None:
        """The client has the answer."""
        for act in self._successes:
            await act()


# Of the call that is being handled; None where nobody tells.
delivery_here: ContextVar[Delivery | None] = ContextVar("delivery", default=None)
