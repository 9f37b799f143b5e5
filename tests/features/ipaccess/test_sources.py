"""Where a call comes from, and whether the lists let it in: decisions without I/O."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.errors import InvalidParameterValue, QuotaExceeded
from brickyard.domain.sources import HERE, UNKNOWN, Admission, SourceRules, network, source_of
from brickyard.features.ipaccess.model import IpAccessList, ListType
from brickyard.features.ipaccess.rules import MAX_ADDRESSES, check, check_quota, rules

ADDRESSES = st.ip_addresses(v=4, network="10.0.0.0/26") | st.ip_addresses(v=6, network="2001:db8::/122")


@st.composite
def networks(draw: st.DrawFn) -> str:
    address = draw(ADDRESSES)
    return f"{address}/{address.max_prefixlen - draw(st.integers(0, 7))}" if draw(st.booleans()) else str(address)


def made(kind: ListType, *addresses: str, enabled: bool = True) -> IpAccessList:
    return IpAccessList(
        list_id="l", label="l", list_type=kind, enabled=enabled, ip_addresses=addresses, address_count=len(addresses),
        created_at=1, created_by=1, updated_at=1, updated_by=1,
    )  # fmt: skip


@given(blocked=st.lists(networks(), max_size=5), allowed=st.none() | st.lists(networks(), max_size=5), address=ADDRESSES)
def test_blocks_come_first_and_allow_lists_count_if_there_are_any(
    blocked: list[str], allowed: list[str] | None, address: ipaddress.IPv4Address | ipaddress.IPv6Address
) -> None:
    def listed(texts: list[str]) -> bool:
        return any(address in ipaddress.ip_network(text, strict=False) for text in texts)

    admission = Admission(SourceRules(blocked=tuple(blocked), allowed=None if allowed is None else tuple(allowed)))
    assert admission.admits(str(address)) == (not listed(blocked) and (allowed is None or listed(allowed)))
    assert admission.admits(HERE)


def test_what_is_in_force() -> None:
    block, allow = made(ListType.BLOCK, "10.0.0.1"), made(ListType.ALLOW, "10.0.0.0/8", "::1")
    assert rules([block, allow], enabled=False) is None
    assert rules([], enabled=True) is None
    assert rules([made(ListType.ALLOW, "10.0.0.1", enabled=False)], enabled=True) is None
    assert rules([block], enabled=True) == SourceRules(blocked=("10.0.0.1",))
    assert rules([block, allow], enabled=True) == SourceRules(blocked=("10.0.0.1",), allowed=("10.0.0.0/8", "::1"))
    assert rules([made(ListType.ALLOW)], enabled=True) == SourceRules(allowed=())


@pytest.mark.parametrize(
    ("text", "address", "inside"),
    [
        ("10.1.2.3/8", "10.9.9.9", True),
        ("10.0.0.0/8", "::ffff:10.1.1.1", True),
        ("::ffff:10.0.0.0/104", "10.1.1.1", True),
        ("fe80::/10", "fe80::1%eth0", True),
        ("0.0.0.0/0", "2001:db8::1", False),
        ("::/0", "10.0.0.1", False),
    ],
)
def test_forms_of_an_address(text: str, address: str, inside: bool) -> None:
    assert Admission(SourceRules(allowed=(text,))).admits(source_of(address)) is inside


@pytest.mark.parametrize("text", ["", "10.0.0.0/33", "10.0.0", "example.com", "10.0.0.1-10.0.0.9", "*", "10.0.0.0/8 "])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        network(text)
    with pytest.raises(InvalidParameterValue, match=r"ip_addresses\[1\]"):
        check("label", ["10.0.0.1", text])


def test_the_quota_counts_all_lists() -> None:
    many = made(ListType.BLOCK, *["10.0.0.1"] * (MAX_ADDRESSES - 1), enabled=False)
    check_quota([many, made(ListType.ALLOW, "10.0.0.2")])
    with pytest.raises(QuotaExceeded):
        check_quota([many, made(ListType.ALLOW, "10.0.0.2", "10.0.0.3")])


@pytest.mark.parametrize(
    ("address", "facts", "source"),
    [
        ("203.0.113.9", {}, "203.0.113.9"),
        ("127.0.0.1", {}, HERE),
        ("127.9.9.9", {}, HERE),
        ("::1", {}, HERE),
        ("::ffff:127.0.0.1", {}, HERE),
        ("10.0.0.5", {"own_address": "10.0.0.5"}, HERE),
        ("10.0.0.5", {"own_address": "0.0.0.0"}, "10.0.0.5"),  # noqa: S104 - a case
        ("127.0.0.1", {"forwarded": True}, UNKNOWN),  # a proxy on this machine that no setting names
        ("10.0.0.5", {"own_address": "10.0.0.5", "forwarded": True}, UNKNOWN),
        ("203.0.113.9", {"proxied": True, "forwarded": True}, "203.0.113.9"),
        ("127.0.0.1", {"proxied": True, "forwarded": True}, "127.0.0.1"),  # a client can put that before its own address
        ("127.0.0.1", {"proxied": True}, HERE),  # the machine's own program, where the proxy is on the machine too
        (HERE, {"proxied": True, "forwarded": True}, UNKNOWN),  # a client can call itself so
        ("unknown", {"proxied": True, "forwarded": True}, UNKNOWN),
        ("", {}, UNKNOWN),
    ],
)
def test_where_a_call_comes_from(address: str, facts: dict[str, object], source: str) -> None:
    assert source_of(address, **facts) == source  # type: ignore[arg-type] # keywords of each case


def test_rules_keep_the_unknown_out() -> None:
    assert Admission(None).admits(UNKNOWN)
    assert not Admission(SourceRules(blocked=("10.0.0.1",))).admits(UNKNOWN)
    assert not Admission(SourceRules(allowed=("127.0.0.1",))).admits("127.0.0.2")
    assert Admission(SourceRules(allowed=("127.0.0.1",))).admits("127.0.0.1")
