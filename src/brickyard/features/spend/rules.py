"""Sums of charges. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spend import Charge

_DIGITS = 6  # as in prices: sums of decimals must not be shown as 0.46799999999999997
_TAG, _DAY = "tag:", "day"
_KEYS: dict[str, Callable[[Charge], str]] = {
    "cluster": lambda charge: charge.cluster_id,
    "creator": lambda charge: charge.creator_user_name,
    "node_type": lambda charge: charge.node_type_id,
    "role": lambda charge: charge.role,
}
DEFAULT_TOP, MAX_TOP = 1_000, 10_000  # keys
DEFAULT_TOP_DAILY, MAX_TOP_DAILY = 10, 100  # of as many days as there are
Key = Callable[[Charge], str]


class Sum(NamedTuple):
    """An amount, hours, and the price per hour of the charges that go on at the end of the range."""

    amount: float = 0.0
    node_hours: float = 0.0
    price_per_hour: float = 0.0

    def plus(self, other: Sum) -> Sum:
        return Sum(self.amount + other.amount, self.node_hours + other.node_hours, self.price_per_hour + other.price_per_hour)

    def rounded(self) -> Sum:
        return Sum(*(round(value, _DIGITS) for value in self))


_NOTHING = Sum()


class Group(NamedTuple):
    """The sum of some charges in one currency. `day` is "" without days; `others` are the keys beyond the greatest."""

    key: str
    currency: str
    amount: float
    node_hours: float
    price_per_hour: float
    day: str = ""
    others: bool = False


class Day(NamedTuple):
    """A date, and the part of it that is in the range."""

    name: str
    start_ms: int
    end_ms: int


class Grouping(NamedTuple):
    """By what spend is asked for. `key` None: by days alone."""

    key: Key | None
    by_day: bool
    top: int

    @property
    def of_clusters(self) -> bool:
        return self.key is _KEYS["cluster"]


def grouping(asked: str, top: int) -> Grouping:
    """Reads `group_by` and `top`. Raises InvalidParameterValue."""
    first, comma, rest = asked.partition(",")
    by_day = first == _DAY
    key = _key(rest if by_day else asked, asked) if comma or not by_day else None
    default, most = (DEFAULT_TOP_DAILY, MAX_TOP_DAILY) if by_day else (DEFAULT_TOP, MAX_TOP)
    if not 0 <= top <= most:
        raise InvalidParameterValue(f"top is {top}; it must be from 1 to {most}{' by day' if by_day else ''}.")
    return Grouping(key, by_day, top or default)


def _key(name: str, asked: str) -> Key:
    if name.startswith(_TAG) and (tag := name.removeprefix(_TAG)):
        return lambda charge: charge.tags.get(tag, "")
    if name not in _KEYS:
        raise InvalidParameterValue(
            f"group_by is {asked[:140]!r}; it must be {', '.join(_KEYS)}, tag:KEY, day, or day,KEY with one of the others."
        )
    return _KEYS[name]


def zone_of(name: str) -> tzinfo:
    """The time zone. Raises InvalidParameterValue."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidParameterValue(
            f"time_zone is {name[:80]!r}, which is no IANA time zone. Use a name such as Europe/Berlin or UTC."
        ) from None


def days_of(start_ms: int, end_ms: int, zone: tzinfo) -> list[Day]:
    """The days of a range: from midnight to midnight of the zone, of 23 to 25 hours where its clocks change."""
    day = datetime.fromtimestamp(start_ms / 1000, zone).date()
    found = []
    while (begins := midnight_ms(day, zone)) < end_ms:
        following = day + timedelta(days=1)
        part = Day(day.isoformat(), max(begins, start_ms), min(midnight_ms(following, zone), end_ms))
        if part.start_ms < part.end_ms:  # a zone that moved over the date line has left a day out
            found.append(part)
        day = following
    return found


def midnight_ms(day: date, zone: tzinfo) -> int:
    """When a day begins."""
    return int(datetime.combine(day, time(), zone).astimezone(UTC).timestamp() * 1000)


def month_of(now: int, zone: tzinfo) -> tuple[int, int]:
    """The beginning and the end of the month that a time is in."""
    first = datetime.fromtimestamp(now / 1000, zone).date().replace(day=1)
    following = (first + timedelta(days=32)).replace(day=1)
    return midnight_ms(first, zone), midnight_ms(following, zone)


def fits(charge: Charge, *, tag: str = "", creator: str = "") -> bool:
    """Whether a charge has the tag (KEY=VALUE) and the creator; "" fits all."""
    if creator and charge.creator_user_name != creator:
        return False
    name, _, value = tag.partition("=")
    return not tag or charge.tags.get(name) == value


def check_tag(tag: str) -> None:
    """Raises InvalidParameterValue."""
    if tag and not tag.partition("=")[1]:
        raise InvalidParameterValue(f"tag is {tag[:140]!r}; it must be KEY=VALUE.")


class Sums:
    """Adds charges up, one after the other: there may be more of them than fit into memory at once."""

    def __init__(self, key: Key | None, *, start_ms: int, end_ms: int, now: int, days: Sequence[Day] = ()) -> None:
        self._key = key
        self._end_ms, self._now = end_ms, now
        self._days = days or (Day("", start_ms, end_ms),)
        self._starts = [each.start_ms for each in self._days]
        self._found: dict[tuple[str, str], dict[str, Sum]] = {}  # by key and currency: by day

    def add(self, charge: Charge) -> None:
        """A charge that has not ended is counted until now."""
        key = (self._key(charge) if self._key else "", charge.currency)
        until = min(self._end_ms, self._now, charge.ended_ms or self._now)
        at = max(0, bisect_right(self._starts, charge.started_ms) - 1)
        runs = not charge.ended_ms and self._end_ms >= self._now
        for day in islice(self._days, at, None):
            goes_on = runs and day.start_ms <= self._now and (day.end_ms > self._now or day is self._days[-1])
            if day.start_ms >= until and not goes_on:
                break
            hours, price = charge.hours(day.start_ms, min(day.end_ms, self._now)), charge.price_per_hour
            rows = self._found.setdefault(key, {})  # a charge outside the range adds no group
            amount, node_hours, going_on = rows.get(day.name, _NOTHING)
            rows[day.name] = Sum(amount + hours * price, node_hours + hours, going_on + price if goes_on else going_on)

    def totals(self) -> list[tuple[str, Sum]]:
        """The sum of everything, by currency."""
        found: dict[str, Sum] = {}
        for (_, currency), rows in self._found.items():
            found[currency] = found.get(currency, _NOTHING).plus(_total(rows))
        return sorted((currency, each.rounded()) for currency, each in found.items())

    def groups(self, top: int) -> tuple[list[Group], int]:
        """The groups of the `top` greatest keys, the greatest first, and of all others together; and how many others there are.
        With days, the first day first."""
        ordered = sorted(self._found.items(), key=lambda each: (-_amount(each[1]), each[0]))
        found, beyond = ordered[:top], ordered[top:]
        made = [Group(key, unit, *part.rounded(), day) for (key, unit), rows in found for day, part in rows.items()]
        rest: dict[tuple[str, str], Sum] = {}
        for (_, unit), rows in beyond:
            for day, part in rows.items():
                rest[unit, day] = rest.get((unit, day), _NOTHING).plus(part)
        made += [Group("", unit, *part.rounded(), day, others=True) for (unit, day), part in rest.items()]
        return sorted(made, key=lambda each: each.day), len(beyond)


def _amount(rows: dict[str, Sum]) -> float:
    return round(sum(part.amount for part in rows.values()), _DIGITS)


def _total(rows: dict[str, Sum]) -> Sum:
    found = _NOTHING
    for part in rows.values():
        found = found.plus(part)
    return found


def grouped(charges: Iterable[Charge], key: Key, *, start_ms: int, end_ms: int, now: int) -> list[Group]:
    """Sums between two times by a key, the greatest first. Charges that have not ended are counted until now."""
    sums = Sums(key, start_ms=start_ms, end_ms=end_ms, now=now)
    for charge in charges:
        sums.add(charge)
    return sums.groups(MAX_TOP)[0]
