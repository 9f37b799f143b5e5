"""What a SQL warehouse has beside its cluster's specification, with the field names of Databricks' Warehouses API; and which
cluster is behind one.

Source: databricks-sdk `service/sql.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec

from brickyard.domain.caller import Caller


class ChannelName(StrEnum):
    CURRENT = "CHANNEL_NAME_CURRENT"
    PREVIEW = "CHANNEL_NAME_PREVIEW"
    PREVIOUS = "CHANNEL_NAME_PREVIOUS"
    CUSTOM = "CHANNEL_NAME_CUSTOM"
    UNSPECIFIED = "CHANNEL_NAME_UNSPECIFIED"


class WarehouseType(StrEnum):
    CLASSIC = "CLASSIC"
    PRO = "PRO"
    REALTIME = "REALTIME"
    UNSPECIFIED = "TYPE_UNSPECIFIED"


class SpotPolicy(StrEnum):
    COST_OPTIMIZED = "COST_OPTIMIZED"
    RELIABILITY_OPTIMIZED = "RELIABILITY_OPTIMIZED"
    UNSPECIFIED = "POLICY_UNSPECIFIED"


class Warehouse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of a cluster that is a SQL warehouse."""

    cluster_size: str
    channel: ChannelName = ChannelName.CURRENT
    warehouse_type: WarehouseType = WarehouseType.CLASSIC
    spot_instance_policy: SpotPolicy = SpotPolicy.COST_OPTIMIZED
    # As it was sent: Databricks' clients send true unless told otherwise. The cluster's `runtime_engine` says what it has.
    enable_photon: bool = False


class Compute(NamedTuple):
    """What runs statements. `warehouse_id`: "" if it is an all-purpose cluster."""

    cluster_id: str
    warehouse_id: str


class Warehouses(Protocol):
    """Those of the workspace, for what runs statements on them. Implemented by `WarehouseService`."""

    async def cluster_of(self, caller: Caller, warehouse_id: str) -> str | None:
        """The id of the warehouse's cluster; None if there is no such warehouse. The cluster need not run. Called with every
        request to a warehouse, so it should be quick. Raises ApiError, such as PermissionDenied."""
        ...

    async def compute_of(self, caller: Caller, warehouse_id: str) -> Compute | None:
        """Where statements with that `warehouse_id` run: on a warehouse, or on an all-purpose cluster with that id; None if there
        is neither. Raises ApiError, such as PermissionDenied."""
        ...


class NoWarehouses:
    """A workspace without any."""

    async def cluster_of(self, caller: Caller, warehouse_id: str) -> str | None:
        """Always None."""
        del caller, warehouse_id
        return None

    async def compute_of(self, caller: Caller, warehouse_id: str) -> Compute | None:
        """Always None."""
        del caller, warehouse_id
        return None


class TaskCallers(Protocol):
    """Callers with tokens of tasks, each of which counts for one warehouse. Implemented by `TaskTokens`."""

    async def caller(self, bearer: str, warehouse_id: str) -> Caller | None:
        """The caller with that token at that warehouse; None if it is no token of a task, or another warehouse's."""
        ...

    async def again(self, caller: Caller) -> Caller | None:
        """The caller with current rights; None once the token counts no more."""
        ...


class NoTasks:
    """A workspace without such tokens."""

    async def caller(self, bearer: str, warehouse_id: str) -> Caller | None:
        """Always None."""
        del bearer, warehouse_id
        return None

    async def again(self, caller: Caller) -> Caller | None:
        """Always None."""
        del caller
        return None
