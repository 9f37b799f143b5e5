"""IP access lists, as stored and as the API has them (databricks-sdk `service/settings.py`)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.sources import UNKNOWN


class ListType(StrEnum):
    """BLOCK lists are looked at first. While there is an ALLOW list, addresses that are in none are refused."""

    ALLOW = "ALLOW"
    BLOCK = "BLOCK"


class IpAccessList(msgspec.Struct, frozen=True, kw_only=True):
    """One list. Times are epoch milliseconds, users are ids; `address_count` is how many `ip_addresses` there are: IPv4 or IPv6
    addresses and CIDR ranges, as they were sent."""

    list_id: str
    label: str
    list_type: ListType
    enabled: bool
    ip_addresses: tuple[str, ...]
    address_count: int
    created_at: int
    created_by: int
    updated_at: int
    updated_by: int


class CreateIpAccessList(msgspec.Struct, frozen=True, kw_only=True):
    """`source`: where the call comes from (`domain.sources`), for all requests that change something."""

    label: str
    list_type: ListType
    ip_addresses: list[str] = []
    enabled: bool = True
    source: str = UNKNOWN


class ReplaceIpAccessList(CreateIpAccessList, frozen=True, kw_only=True):
    """Every field of the list."""

    ip_access_list_id: str
    enabled: bool


class UpdateIpAccessList(msgspec.Struct, frozen=True, kw_only=True):
    """The fields to change."""

    ip_access_list_id: str
    label: str | None = None
    list_type: ListType | None = None
    ip_addresses: list[str] | None = None
    enabled: bool | None = None
    source: str = UNKNOWN


class DeleteIpAccessList(msgspec.Struct, frozen=True, kw_only=True):
    ip_access_list_id: str
    source: str = UNKNOWN


class IpAccessListId(msgspec.Struct, frozen=True, kw_only=True):
    ip_access_list_id: str


class IpAccessListResponse(msgspec.Struct, frozen=True, kw_only=True):
    ip_access_list: IpAccessList


class ListIpAccessListsResponse(msgspec.Struct, frozen=True, kw_only=True):
    ip_access_lists: list[IpAccessList]
