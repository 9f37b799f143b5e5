"""What the forwarding process is told (`__main__.py`), and how a server tells it.

The server writes one line, a JSON list of all doors that are to be open, at least every few seconds; the process answers each
with one line: for every door why it is not open, or "". It closes everything when its server has gone or is silent for SILENCE_S.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence

import msgspec

_decode_texts = msgspec.json.Decoder(list[str]).decode


SILENCE_S = 20.0  # longer than a database that hangs keeps a server waiting
ANSWER_S = 10.0
LINE = 16 << 20  # bytes
_ALWAYS = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")


class Door(msgspec.Struct, frozen=True):
    """A listener at an address and port of this machine. It leads through the Unix socket `way` or, where that is empty, to a
    port of a host. `user`: whose connections they are."""

    address: str
    port: int
    way: str
    host: str
    host_port: int
    user: str = ""


class ForwardingFailed(Exception):
    """The process cannot be started, or does not answer. All doors are closed then."""


class Forwarding:
    """The process, which is started when the first door is to be open and ends with the last one. For one event loop; `tell` and
    `close` are not to be called at the same time."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self.ports: frozenset[int] = frozenset()  # where it listens, as far as is known

    async def tell(self, doors: Sequence[Door]) -> list[str]:
        """Has exactly these doors open. Returns why each is not, or "". Raises ForwardingFailed."""
        if not doors:
            await self.close()
            return []
        self.ports |= {each.port for each in doors}
        try:
            process = await self._running()
            assert process.stdin and process.stdout  # noqa: S101 - both are pipes
            process.stdin.write(msgspec.json.encode(doors) + b"\n")
            async with asyncio.timeout(ANSWER_S):
                await process.stdin.drain()
                faults = _decode_texts(await process.stdout.readline())
        except (OSError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
            await self.close()
            raise ForwardingFailed(str(error) or "it does not answer") from error
        self.ports = frozenset(door.port for door, fault in zip(doors, faults, strict=True) if not fault)
        return faults

    async def close(self) -> None:
        """Closes all doors and connections, and ends the process."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin  # noqa: S101 - a pipe
            process.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # to the end of its pipes: the event loop may close after this
        self.ports = frozenset()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "brickyard.gateway.forwarding"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={name: os.environ[name] for name in _ALWAYS if name in os.environ},
                cwd="/",
                start_new_session=True,
                limit=LINE,
            )
        return self._process
