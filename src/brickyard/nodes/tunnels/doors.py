"""What the tunnel process is told (`__main__.py`): one JSON object a line, each answered by a line with a fault, or ""."""

from __future__ import annotations

import msgspec

LINE = 1 << 20  # bytes


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """A Unix socket `name` in the process's directory that leads to a port of a node. `host` and `port`: the node's agent, which
    has the certificate with that fingerprint."""

    name: str  # INSTANCE/PORT
    host: str
    port: int
    fingerprint: str
    token: str
    node_port: int
    generation: int


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`open` it, or change where it leads; `close` all whose names begin like that."""

    open: Door | None = None
    close: str = ""


class Answer(msgspec.Struct, frozen=True):
    fault: str = ""
