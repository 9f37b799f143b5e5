"""Finds agents that have been silent for too long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Silence:
    """Judges by marks: one value per agent, which changes whenever the agent has been heard from. Only the time between checks
    in close succession counts, since after a longer pause nobody can tell what could have been heard. After such a pause, as
    after the first check, every agent has the full time again."""

    def __init__(self, *, after_s: float, pause_s: float) -> None:
        self._after_s = after_s
        self._pause_s = pause_s
        self._looked_s = float("-inf")
        self._since: dict[str, tuple[float, float]] = {}  # instance -> its mark, and when the mark was new

    def look(self, registered: Iterable[str], marks: Mapping[str, float], *, now_s: float) -> frozenset[str]:
        """The registered instances whose marks have not changed for too long. One without a mark counts too: it was heard from
        once, or it would not be registered."""
        if now_s - self._looked_s > self._pause_s:
            self._since = {}
        self._looked_s = now_s
        since: dict[str, tuple[float, float]] = {}
        for instance_id in registered:
            mark = marks.get(instance_id, 0)
            before = self._since.get(instance_id)
            since[instance_id] = before if before is not None and before[0] == mark else (mark, now_s)
        self._since = since
        return frozenset(instance_id for instance_id, (_, at_s) in since.items() if now_s - at_s > self._after_s)

    def forget(self) -> None:
        """Forgets everything seen so far."""
        self._since = {}
