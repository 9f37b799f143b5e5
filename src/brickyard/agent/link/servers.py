"""The servers that an agent may call.

Only servers may receive our token. Nodes share the machine's ports, so any process may take a dead server's port. With
`server_file`, the servers are on our machine: each has a server.json that names its process, and we send nothing unless that
process is alive. Otherwise the URL is all we have.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import msgspec

from brickyard.agent.config import AgentConfig
from brickyard.domain.node import ServerAddress
from brickyard.machine import processes
from brickyard.machine.files import write_atomic

_decode_servers = msgspec.json.Decoder(tuple[ServerAddress, ...]).decode


KEPT_FILE = "servers.json"  # in the instance's directory: the servers we were told of, for the next start
MAX_SERVERS = 64


class _Note(msgspec.Struct):
    """A server.json. `start`: the process's start as in `processes.Process`; 0 if not given."""

    pid: int
    url: str
    start: int = 0


_decode_note = msgspec.json.Decoder(_Note).decode


class Servers:
    """The server that launched the agent, the servers it was told of, and which of them answered last."""

    def __init__(self, config: AgentConfig) -> None:
        self._own = ServerAddress(url=config.server_url, file=config.server_file)
        self._encrypted = config.encrypted
        self._kept = config.directory / KEPT_FILE
        self._told = self._read() or config.servers
        self._present = self._own
        self._next: ServerAddress | None = None  # the one to which our server sends us
        self.moves = 0  # how often reports have moved to another server
        self._reported_to = ""

    def candidates(self, *, moving: bool = False) -> list[str]:
        """Returns the URLs to call now, the last server that answered first, or if `moving` the one to which it sent us. Empty if
        no server may receive our token."""
        others = [each for each in self._told if self._name(each) != self._name(self._present)]
        random.shuffle(others)  # so that agents of a lost server spread over the others
        first = [self._next] if moving and self._next is not None else []
        urls = (self._url(each) for each in (*first, self._present, *others, self._own))
        return list(dict.fromkeys(url for url in urls if url))

    def send_to(self, server: ServerAddress) -> None:
        """Our server asks us to call another one."""
        self._next = next((each for each in self._told if self._name(each) == self._name(server)), None)

    def answered(self, url: str, *, moving: bool = False) -> bool:
        """Records that the server at this URL has proved itself. Returns whether it differs from the last one."""
        if moving:
            self._next = None  # it has answered, or it cannot be reached and we stay
        moved = self._url(self._present) != url
        if moved:
            known = (*self._told, self._own)
            self._present = next((each for each in known if self._url(each) == url), self._present)
        return moved

    def reporting_to(self, url: str) -> int:
        """Records that a report is about to go to this URL; returns the number of moves so far."""
        if self._reported_to not in ("", url):
            self.moves += 1
        self._reported_to = url
        return self.moves

    def told(self, servers: tuple[ServerAddress, ...]) -> None:
        """Takes over the list of all servers from one of them, and keeps it for the next agent in this directory."""
        if not servers or servers == self._told:
            return
        self._told = servers[:MAX_SERVERS]
        with contextlib.suppress(OSError):  # on a full disk we still have the list in memory
            write_atomic(self._kept, msgspec.json.encode(self._told))

    def _read(self) -> tuple[ServerAddress, ...]:
        try:
            return _decode_servers(self._kept.read_bytes())
        except (OSError, msgspec.MsgspecError):
            return ()

    def _name(self, server: ServerAddress) -> str:
        return server.file if self._own.file else server.url

    def _url(self, server: ServerAddress) -> str:
        """Returns where to call it, or "" if the process there may not receive our token."""
        if not self._own.file:
            return server.url.rstrip("/") if server.url.startswith("https://") or not self._encrypted else ""
        if not server.file:
            return ""
        try:
            note = _decode_note(Path(server.file).read_bytes())
        except (OSError, msgspec.MsgspecError):
            return ""
        process = processes.find(note.pid)
        return note.url.rstrip("/") if process is not None and note.start in (0, process.start) else ""
