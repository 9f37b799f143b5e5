"""What a SQL warehouse has beside its cluster's specification, with the field names of Databricks' Warehouses API.

Source: databricks-sdk `service/sql.py`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


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
