"""When a trigger by files or tables fires. Pure.

What is there is a set of tokens: one for each file, or for each version of a table. A token that was not there at the last run is
new. The state remembers the tokens, not times, so a clock that is set back repeats nothing, and neither does another server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

LOOK_MS = 10_000  # between two looks
SLOWEST_MS = 60_000  # where looking takes long


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger has seen. `since_ms`: when it was set; what was there before does not count. `why` it cannot look, if so."""

    since_ms: int
    based: bool = False
    known: tuple[str, ...] = ()  # sorted: what was there when a run last began, as far as it still is
    fresh: tuple[str, ...] = ()  # sorted: what is new
    changed_ms: int = 0  # when `fresh` last changed
    fired_ms: int = 0
    why: str = ""


class Waits(NamedTuple):
    """`between_ms` runs, and `quiet_ms` after the last change."""

    between_ms: int
    quiet_ms: int


class Look(NamedTuple):
    """The state after a look, the new tokens that a run begins for, and when to look again at the latest."""

    state: Watched
    fires: tuple[str, ...]
    next_ms: int


def looked(
    state: Watched, seen: Mapping[str, int], waits: Waits, *, now: int, enough: Callable[[frozenset[str]], bool] = bool
) -> Look:
    """What a look means. `seen`: tokens, and when each changed; `enough`: whether these new ones are what is waited for."""
    replace = msgspec.structs.replace
    known = set(state.known) if state.based else {token for token, at in seen.items() if at < state.since_ms}
    known &= seen.keys()
    fresh = tuple(sorted(seen.keys() - known))
    changed_ms, fired_ms = (min(state.changed_ms, now), min(state.fired_ms, now))  # the clock may have been set back
    if fresh != state.fresh:
        changed_ms = now
    state = replace(state, based=True, known=tuple(sorted(known)), fresh=fresh, changed_ms=changed_ms, fired_ms=fired_ms, why="")
    if not fresh or not enough(frozenset(fresh)):
        return Look(state, (), now + LOOK_MS)
    ready = max(changed_ms + waits.quiet_ms, fired_ms + waits.between_ms if fired_ms else 0)
    if now < ready:
        return Look(state, (), min(ready, now + LOOK_MS))
    fired = replace(state, known=tuple(sorted(seen)), fresh=(), changed_ms=0, fired_ms=now)
    return Look(fired, fresh, now + LOOK_MS)


def failed(state: Watched, why: str, *, now: int) -> Look:
    """The state after a look that was not possible."""
    return Look(msgspec.structs.replace(state, why=why), (), now + SLOWEST_MS)
