"""The servers that an agent may call.

Our token goes to servers only. Ports are shared with the nodes, so a dead server's port may be taken by anybody. Where
`server_file` is given, the servers are on our machine: each is known by its own server.json, which names its process, and nothing
is sent unless that process lives. Elsewhere the URL is all there is to go by.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import msgspec

from brickyard.agent import processes
from brickyard.agent.config import AgentConfig
from brickyard.agent.files import write_atomic
from brickyard.domain.node import ServerAddress

KEPT_FILE = "servers.json"  # in the instance's directory: what we were told, for our next start
MAX_SERVERS = 64


class _Note(msgspec.Struct):
    """A server.json. `start`: of the process, as in `processes.Process`; 0: not told."""

    pid: int
    url: str
    start: int = 0


class Servers:
    """The server that launched us, those that we were told of, and which of them answered last."""

    def __init__(self, config: AgentConfig) -> None:
        self._own = ServerAddress(url=config.server_url, file=config.server_file)
        self._kept = config.directory / KEPT_FILE
        self._told = self._read() or config.servers
        self._present = self._own
        self.moves = 0  # how often reports have gone to another server than the one before
        self._reported_to = ""

    def candidates(self) -> list[str]:
        """URLs to call now, the server that answered last first. None: there is no server that may have our token."""
        others = [each for each in self._told if self._name(each) != self._name(self._present)]
        random.shuffle(others)  # the agents of a server that has gone spread over the others
        urls = (self._url(each) for each in (self._present, *others, self._own))
        return list(dict.fromkeys(url for url in urls if url))

    def answered(self, url: str) -> bool:
        """The server at this URL has proved itself. True: it is another one than before."""
        moved = self._url(self._present) != url
        if moved:
            known = (*self._told, self._own)
            self._present = next((each for each in known if self._url(each) == url), self._present)
        return moved

    def reporting_to(self, url: str) -> int:
        """A report is about to go there; returns its number of moves."""
        if self._reported_to not in ("", url):
            self.moves += 1
        self._reported_to = url
        return self.moves

    def told(self, servers: tuple[ServerAddress, ...]) -> None:
        """One of our servers says who they all are. Who starts after us in this directory knows it too."""
        if not servers or servers == self._told:
            return
        self._told = servers[:MAX_SERVERS]
        with contextlib.suppress(OSError):  # a full disk: we know it ourselves
            write_atomic(self._kept, msgspec.json.encode(self._told))

    def _read(self) -> tuple[ServerAddress, ...]:
        try:
            return msgspec.json.decode(self._kept.read_bytes(), type=tuple[ServerAddress, ...])
        except (OSError, msgspec.MsgspecError):
            return ()

    def _name(self, server: ServerAddress) -> str:
        return server.file if self._own.file else server.url

    def _url(self, server: ServerAddress) -> str:
        """Where to call it; "" where nobody may have our token."""
        if not self._own.file:
            return server.url.rstrip("/")
        if not server.file:
            return ""
        try:
            note = msgspec.json.decode(Path(server.file).read_bytes(), type=_Note)
        except (OSError, msgspec.MsgspecError):
            return ""
        process = processes.find(note.pid)
        return note.url.rstrip("/") if process is not None and note.start in (0, process.start) else ""
