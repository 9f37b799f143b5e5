"""What the lists say together. Source: Databricks' reference of IP access lists: block lists first, then allow lists if
there are any, and at most 1,000 addresses and ranges in all lists together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from brickyard.domain.errors import InvalidParameterValue, QuotaExceeded
from brickyard.domain.sources import SourceRules, network
from brickyard.features.ipaccess.model import IpAccessList, ListType

MAX_ADDRESSES = 1_000  # of all lists, also disabled ones
MAX_LISTS = 1_000
MAX_LABEL = 255
_SHOWN = 80


def rules(lists: Iterable[IpAccessList], *, enabled: bool) -> SourceRules | None:
    """What is in force; None: nothing. `enabled`: the workspace's `enableIpAccessLists`."""
    active = [each for each in lists if each.enabled]
    if not enabled or not active:
        return None
    of = {kind: [each.ip_addresses for each in active if each.list_type is kind] for kind in ListType}
    blocked, allowed = (tuple(chain.from_iterable(of[kind])) for kind in (ListType.BLOCK, ListType.ALLOW))
    return SourceRules(blocked=blocked, allowed=allowed if of[ListType.ALLOW] else None)


def check(label: str, ip_addresses: Sequence[str]) -> None:
    """Raises InvalidParameterValue, with the field and the rule."""
    if not label.strip():
        raise InvalidParameterValue("label must not be empty.")
    if len(label) > MAX_LABEL:
        raise InvalidParameterValue(f"label has {len(label)} characters; at most {MAX_LABEL} are allowed.")
    for index, text in enumerate(ip_addresses[: MAX_ADDRESSES + 1]):
        try:
            network(text)
        except ValueError:
            shown = text[:_SHOWN]
            raise InvalidParameterValue(
                f"ip_addresses[{index}] is {shown!r}; it must be an IP address or a CIDR range such as 10.0.0.0/8."
            ) from None


def check_quota(lists: Sequence[IpAccessList]) -> None:
    """Raises QuotaExceeded."""
    if len(lists) > MAX_LISTS:
        raise QuotaExceeded(f"The workspace would have {len(lists)} IP access lists; at most {MAX_LISTS} are allowed.")
    if (count := sum(each.address_count for each in lists)) > MAX_ADDRESSES:
        raise QuotaExceeded(
            f"The IP access lists of the workspace would have {count} addresses and ranges; at most {MAX_ADDRESSES} are allowed."
        )
