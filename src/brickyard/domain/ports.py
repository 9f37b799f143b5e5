"""Ports of a cluster's driver that are reachable from outside: as stored, and in the /v1/clusters dialect."""

from __future__ import annotations

from enum import StrEnum

import msgspec

LOOPBACK = "127.0.0.1"


class PortProtocol(StrEnum):
    TCP = "tcp"
    HTTP = "http"


class PortStatus(StrEnum):
    """`pending`: the listener is not open yet. `inactive`: the cluster does not run."""

    ACTIVE = "active"
    PENDING = "pending"
    FAILED = "failed"
    INACTIVE = "inactive"


class PortMapping(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody asked for. `external_port` is 0 for http, which has a path of the gateway. With `strip_prefix` the program
    sees the paths below that one; otherwise it sees them whole."""

    port_id: str
    cluster_id: str
    internal_port: int
    protocol: PortProtocol = PortProtocol.HTTP
    external_port: int = 0
    bind_address: str = LOOPBACK
    description: str = ""
    strip_prefix: bool = True


class PortRow(msgspec.Struct, frozen=True, kw_only=True):
    """A mapping, and what the server that listens has made of it: `opened` is the incarnation of the cluster to which its
    listener leads, `fault` why there is none."""

    mapping: PortMapping
    opened: int = 0
    fault: str = ""


# -- requests --------------------------------------------------------------------------------------------------------


class _Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    internal_port: int | None = None
    external_port: int | None = None
    protocol: PortProtocol | None = None
    description: str | None = None
    bind_address: str | None = None
    strip_prefix: bool | None = None


class PortUpdate(_Fields, frozen=True, kw_only=True):
    """One mapping of a list: a new one or, with the id or the internal port and protocol of an existing one, its change. With
    `remove` that one goes."""

    id: str | None = None
    remove: bool | None = None


class GetProxy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cluster_id: str


class SetProxy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All mappings that the cluster is to have. Those that are not listed are removed."""

    cluster_id: str
    port_mappings: list[PortUpdate]


class AddPort(_Fields, frozen=True, kw_only=True):
    cluster_id: str


class ChangePort(_Fields, frozen=True, kw_only=True):
    """Fields that are left out stay."""

    cluster_id: str
    port_id: str


class RemovePort(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cluster_id: str
    port_id: str


# -- answers ---------------------------------------------------------------------------------------------------------


class PortView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    internal_port: int
    external_port: int
    protocol: PortProtocol
    description: str
    bind_address: str
    strip_prefix: bool
    url: str
    status: PortStatus
    status_details: str


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """`proxy_url`: below it are the paths of http mappings."""

    proxy_url: str
    port_mappings: list[PortView]


class ProxyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: Proxy


class PortAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: PortView


class RemovedPort(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    deleted: bool = True


class RemovedPortAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: RemovedPort
