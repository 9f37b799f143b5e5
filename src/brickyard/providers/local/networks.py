"""Networks for the instances of a data directory: whether there are any, their switchboard, and their addresses."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import structlog

from brickyard.config.settings import Settings
from brickyard.machine import addresses, files, processes
from brickyard.sandbox import launcher, network
from brickyard.storage.directory import Storage

log = structlog.get_logger()


class _Holder(msgspec.Struct):
    """A server that holds the switchboard."""

    process: processes.Process
    descriptor: int


_decode_holder = msgspec.json.Decoder(_Holder).decode


class LocalNetworks:
    """One per provider. Call from one thread of one server at a time: two servers that start together must not make two
    switchboards. What the machine allows is determined once, at the first launch."""

    def __init__(self, *, settings: Settings, storage: Storage, python: str) -> None:
        self._settings = settings
        self._storage = storage
        self._python = python
        self._allowed: network.Allowed | None = None
        self._switchboard = -1

    @property
    def switchboard(self) -> int:
        """The descriptor that agents inherit; -1 if nodes share the machine's network."""
        self.allowed()
        return self._switchboard

    def allowed(self) -> network.Allowed:
        """What new instances get."""
        if self._allowed is None:
            self._allowed = self._find_out()
            if self._allowed.kind == "shared":
                log.warning("network_shared", reason=self._allowed.reason)
        return self._allowed

    def address(self, instance_id: str, taken: Sequence[str]) -> str:
        """An address for a new instance; "" if it shares the machine's network."""
        if self.allowed().kind == "shared":
            return ""
        seed = int.from_bytes(hashlib.blake2b(instance_id.encode(), digest_size=4).digest(), "big")
        return addresses.free_address(seed, taken)

    def ways(self, address: str) -> Path:
        """The directory of the sockets that lead into the network of that address."""
        return self._storage.ways / address

    def settings(self, address: str) -> dict[str, Any]:
        """The AgentConfig fields for the network."""
        if not address:
            reason = self.allowed().reason
            return {"network_reason": reason, "network_required": self._settings.network == "isolated"}
        return {
            "network": "isolated",
            "address": address,
            "ways_dir": str(self.ways(address)),
            "internet": self._settings.internet,
            "network_allow": self._settings.allowed_places,
        }

    @contextlib.asynccontextmanager
    async def lend(self, alone: Callable[[], AbstractContextManager[None]]) -> AsyncIterator[tuple[int, int] | None]:
        """A network like the nodes', with no node in it: its descriptors, or None if nodes share the machine's. `alone` excludes
        other servers. Raises OSError and NetworkError."""

        def find() -> network.Allowed:
            with alone():
                return self.allowed()

        found, settings = await asyncio.to_thread(find), self._settings
        if found.kind == "shared":
            if settings.network == "isolated":
                raise addresses.NetworkError(f"this workspace requires a network for every cluster: {found.reason}")
            yield None
            return
        ways = self._storage.ways / f".lent-{secrets.token_hex(8)}"
        plan = network.Plan(
            address=str(addresses.RANGE[1]), ways=str(ways), switchboard=self._switchboard, internet=settings.internet,
            allow=settings.allowed_places,
        )  # fmt: skip
        lent = network.Network(plan=plan, python=self._python)
        try:
            await lent.start()
            yield lent.descriptors
        finally:
            await lent.stop()

    def _find_out(self) -> network.Allowed:
        settings = self._settings
        if settings.network == "shared":
            return network.Allowed("shared", "the settings say so.")
        self._switchboard = self._held_by_a_server()
        if self._switchboard < 0:
            self._switchboard = network.find_switchboard(self._storage.instances)
        if self._switchboard >= 0:
            self._tell()
            return network.Allowed("isolated")
        isolation = launcher.probe(mode=settings.isolation, python=self._python)
        walls = launcher.choose(settings.isolation, isolation, python=self._python)
        try:
            place = self._storage.ways / f".probe-{os.getpid()}"
            self._switchboard = network.probe(place, walls, python=self._python)
        except (addresses.NetworkError, OSError) as error:
            return network.Allowed("shared", str(error))
        self._tell()
        return network.Allowed("isolated")

    def _held_by_a_server(self) -> int:
        """A descriptor of the switchboard that another server holds, or -1 if none does."""
        found = -1
        for record in list(self._storage.switchboards.glob("*.json")):
            with contextlib.suppress(OSError, msgspec.MsgspecError):  # it belongs to another user, or has just gone
                holder = _decode_holder(record.read_bytes())
                link = Path(f"/proc/{holder.process.pid}/fd/{holder.descriptor}")
                if not processes.alive(holder.process):
                    record.unlink()
                elif found < 0 and os.readlink(link).startswith("user:["):  # noqa: PTH115 - no path, a name of the kernel's
                    found = os.open(link, os.O_RDONLY | os.O_CLOEXEC)
        return found

    def _tell(self) -> None:
        """Lets other servers find the switchboard here even if no agent is running. On a full disk, only agents lead to it."""
        if (process := processes.find(os.getpid())) is not None:
            with contextlib.suppress(OSError):
                self._storage.switchboards.mkdir(mode=0o700, exist_ok=True)
                record = self._storage.switchboards / f"{secrets.token_hex(8)}.json"
                files.write_atomic(record, msgspec.json.encode(_Holder(process, self._switchboard)))
