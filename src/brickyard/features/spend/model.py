"""Requests and answers about spend."""

from __future__ import annotations

import msgspec


class AskSpend(msgspec.Struct, frozen=True, kw_only=True):
    """A range of time in epoch ms; the last 30 days if none is given. `group_by`: cluster, creator, node_type, role, or
    tag:KEY."""

    start_time: int = 0
    end_time: int = 0
    group_by: str = "cluster"


class AskClusterSpend(msgspec.Struct, frozen=True, kw_only=True):
    """Of one cluster; from its creation until now if no time is given."""

    cluster_id: str = ""
    start_time: int = 0
    end_time: int = 0


class SpendGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The spend of one cluster, creator, ... `key` is empty for clusters without the tag; names are those of a cluster."""

    key: str
    cluster_name: str = ""
    creator_user_name: str = ""
    currency: str
    amount: float
    node_hours: float
    price_per_hour: float


class Spend(msgspec.Struct, frozen=True, kw_only=True):
    """Sums between two times, the greatest first."""

    start_time: int
    end_time: int
    groups: list[SpendGroup]


class NodePrice(msgspec.Struct, frozen=True, kw_only=True):
    node_type_id: str
    price_per_hour: float


class PriceList(msgspec.Struct, frozen=True, kw_only=True):
    """The prices of the node types on offer."""

    currency: str
    node_types: list[NodePrice]
