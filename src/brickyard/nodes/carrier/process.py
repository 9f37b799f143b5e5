"""A carrier process as its server sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from brickyard.domain.sources import SourceRules
from brickyard.machine.children import Child, program
from brickyard.nodes.carrier.routes import LINE, Route, Told

_decode_faults = msgspec.json.Decoder(list[str]).decode


ANSWER_S = 10.0


class CarrierFailed(Exception):
    """The process cannot be started, or does not answer. All routes are closed then."""


class Carrier:
    """The process, which starts with the first route and ends with the last one. For one event loop, and one call at a time.

    `silence_s`: it closes everything when it has not been told anything for so long; 0: only when its server has gone.
    """

    def __init__(self, *, directory: Path = Path("/"), silence_s: float = 0.0) -> None:
        self._command = program("brickyard.nodes.carrier", str(directory), str(silence_s))
        self.child: Child | None = None

    async def tell(self, routes: Sequence[Route], sources: SourceRules | None = None) -> list[str]:
        """Has exactly these routes open, those of addresses for these sources. Returns why each is not, or "".
        Raises CarrierFailed."""
        if not routes:
            await self.close()
            return []
        try:
            if self.child is None:
                self.child = await Child.start(self._command, longest=LINE)
            async with asyncio.timeout(ANSWER_S):
                await self.child.send(Told(tuple(routes), sources))
                if answer := await self.child.line():
                    return _decode_faults(answer)
                raise ConnectionError("it has ended")
        except (OSError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
            await self.close()
            raise CarrierFailed(str(error) or "it does not answer") from error
        except asyncio.CancelledError:
            await self.close()  # its answer must not be taken for the next one's
            raise

    async def close(self) -> None:
        """Closes all routes and connections, and ends the process."""
        child, self.child = self.child, None
        if child is not None:
            await child.end()
