"""Limits that all users of a workspace share. Each user may use a share of one, and administrators keep a reserve: else one user
could keep everybody out, the administrators who would have to end that included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Self

from brickyard.domain.access import Principal


class Quota(NamedTuple):
    """`things` is their name in the plural. Users who are no administrators may have `share` of them each, and `total - reserve`
    together. Administrators may have `admin_share` each; without it, as many as are left."""

    things: str
    total: int
    share: int
    reserve: int
    advice: str = "Close one first."
    admin_share: int | None = None

    def refusal(self, principal: Principal, *, own: int, total: int) -> str:
        """Why the principal cannot have one more than the `own` ones, of `total`; "" if it can."""
        share = self.admin_share if principal.is_admin else self.share
        if share is not None and own >= share:
            return f"{principal.user_name} has {own} {self.things}; at most {share} are allowed for each user. {self.advice}"
        if total >= self.total:
            return f"The workspace has {total} {self.things}, which is the maximum. {self.advice}"
        if not principal.is_admin and total >= self.total - self.reserve:
            return f"The workspace has {total} {self.things}; the last {self.reserve} are for administrators. {self.advice}"
        return ""


class ByteQuota(NamedTuple):
    """Bytes that all users share, however much each of them takes. The last twentieth, at most a GiB, is for administrators."""

    total: int

    @property
    def reserve(self) -> int:
        return min(self.total // 20, 1 << 30)

    def limit(self, *, is_admin: bool) -> int:
        """How many bytes there may be before somebody is refused more."""
        return self.total if is_admin else self.total - self.reserve


class Slot:
    """One of those that a user has: within `with`, or until `release`."""

    def __init__(self, occupancy: Occupancy, user_name: str) -> None:
        self._occupancy = occupancy
        self._user_name = user_name
        self._held = True

    def release(self) -> None:
        """Gives it back. May be repeated."""
        if self._held:
            self._held = False
            self._occupancy.leave(self._user_name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Occupancy:
    """How much of a quota each user takes in this process at the moment. For one thread."""

    def __init__(self) -> None:
        self._of_user: Counter[str] = Counter()

    def enter(self, quota: Quota, principal: Principal, *, error: Callable[[str], Exception]) -> Slot:
        """Counts one more, until its slot is released. Raises `error` with the reason if the quota does not allow it."""
        name = principal.user_name
        if why := quota.refusal(principal, own=self._of_user[name], total=self._of_user.total()):
            raise error(why)
        self._of_user[name] += 1
        return Slot(self, name)

    def __len__(self) -> int:
        return self._of_user.total()

    def leave(self, name: str) -> None:
        """Counts one less. For slots."""
        self._of_user[name] -= 1
        if not self._of_user[name]:
            del self._of_user[name]
