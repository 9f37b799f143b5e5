"""Limits that users share: nobody can take one alone, and administrators find room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.clusters.attach.shares import CONTEXTS
from brickyard.clusters.logs.following import FOLLOWERS
from brickyard.clusters.v1.following import STREAMS
from brickyard.domain.access import Principal
from brickyard.domain.errors import QuotaExceeded
from brickyard.domain.quotas import ByteQuota, Occupancy, Quota, Slot
from brickyard.features.changes.service import WATCHERS
from brickyard.features.files.uploads import HANDLES
from brickyard.features.secrets.service import SCOPES
from brickyard.gateway.connect import CALLS
from brickyard.gateway.websockets import WEBSOCKETS


def user(name: str, *, admin: bool = False) -> Principal:
    return Principal(user_name=name, user_id=name, is_admin=admin)


@pytest.mark.parametrize(
    "quota", [CONTEXTS, CALLS, WEBSOCKETS, WATCHERS, HANDLES, STREAMS, FOLLOWERS, SCOPES], ids=lambda each: each.things
)
def test_every_quota_has_a_share_and_a_reserve(quota: Quota) -> None:
    assert 0 < quota.share <= quota.total // 4
    assert quota.total // 20 <= quota.reserve < quota.total - quota.share
    assert quota.admin_share is None or quota.admin_share >= quota.share


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=60),
    st.integers(4, 12),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_a_quota_is_shared(steps: list[tuple[str, bool]], total: int, share: int, reserve: int) -> None:
    """Users come and go in any order; whatever they do, an administrator finds room, and those who go leave theirs."""
    quota, open_ones = Quota("things", total, share, reserve), Occupancy()
    held: dict[str, list[Slot]] = {}
    for name, leaves in steps:
        own = held.setdefault(name, [])
        if leaves and own:
            slot = own.pop()
            with slot:
                assert len(open_ones) == sum(map(len, held.values())) + 1
            slot.release()  # counts once
            continue
        try:
            own.append(open_ones.enter(quota, user(name), error=QuotaExceeded))
        except QuotaExceeded:
            assert len(own) == share or len(open_ones) == total - reserve
        assert len(open_ones) == sum(map(len, held.values())) <= total - reserve
        assert max(map(len, held.values())) <= share
    room = total - len(open_ones)
    assert room >= reserve
    for _ in range(room):
        open_ones.enter(quota, user("admin", admin=True), error=QuotaExceeded)
    with pytest.raises(QuotaExceeded):
        open_ones.enter(quota, user("admin", admin=True), error=QuotaExceeded)


@given(st.integers(0, 1 << 50))
def test_the_last_bytes_are_for_administrators(total: int) -> None:
    quota = ByteQuota(total)
    assert quota.limit(is_admin=True) == total
    assert 0 <= total - quota.limit(is_admin=False) == quota.reserve <= min(total / 20, 1 << 30)
