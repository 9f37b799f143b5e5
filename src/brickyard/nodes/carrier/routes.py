"""What a carrier process is told: one line of JSON, with all routes that are to be open. It answers with a line: for every
route why it is not open, or ""."""

from __future__ import annotations

import msgspec

from brickyard.domain.sources import SourceRules

LINE = 16 << 20  # bytes


class Tcp(msgspec.Struct, frozen=True, tag=True):
    """A port of an address."""

    host: str
    port: int


class Socket(msgspec.Struct, frozen=True, tag=True):
    """A Unix socket. Where a process listens, its path is relative to the process's directory."""

    path: str


class NodePort(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A port of a node, through TLS to its agent at `host` and `port`, which has the certificate with that fingerprint."""

    host: str
    port: int
    fingerprint: str
    token: str
    node_port: int
    generation: int


class Route(msgspec.Struct, frozen=True):
    """Where to listen, and where that leads. `user`: whose connections they are; "": nobody's, without a limit for each user."""

    listener: Tcp | Socket
    target: Tcp | Socket | NodePort
    user: str = ""


class Told(msgspec.Struct, frozen=True):
    """`sources`: from where connections to a port of an address are let in; None: from everywhere."""

    routes: tuple[Route, ...]
    sources: SourceRules | None = None
