"""Sums of charges. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from brickyard.domain.spend import Charge

_DIGITS = 6  # as in prices: sums of decimals must not be shown as 0.46799999999999997


class Group(NamedTuple):
    """The sum of some charges in one currency. `price_per_hour` is of those that go on at the end of the range."""

    key: str
    currency: str
    amount: float
    node_hours: float
    price_per_hour: float


def grouped(charges: Iterable[Charge], key: Callable[[Charge], str], *, start_ms: int, end_ms: int, now: int) -> list[Group]:
    """Sums between two times by a key, the greatest first. Charges that have not ended are counted until now."""
    until = min(end_ms, now)
    sums: dict[tuple[str, str], list[float]] = {}
    for charge in charges:
        row = sums.setdefault((key(charge), charge.currency), [0.0, 0.0, 0.0])
        row[0] += charge.amount(start_ms, until)
        row[1] += charge.hours(start_ms, until)
        row[2] += charge.price_per_hour if not charge.ended_ms and end_ms >= now else 0.0
    found = [Group(name, unit, *(round(value, _DIGITS) for value in row)) for (name, unit), row in sums.items()]
    return sorted(found, key=lambda each: (-each.amount, each.key, each.currency))
