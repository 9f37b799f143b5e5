"""What drivers have to do, as they said last: in memory only.

A load changes every second while a cluster works, and is worth nothing once it is old: after a restart the next heartbeat brings
it again. Where several servers share a database, the one that a driver reports to is the one that scales its cluster.
"""

from __future__ import annotations

from brickyard.domain.node import Load


class Loads:
    """Read on the store's threads, written on the event loop: every entry is immutable and replaced whole."""

    def __init__(self) -> None:
        self._loads: dict[str, tuple[int, Load]] = {}
        self._followed: set[str] = set()

    def hear(self, instance_id: str, generation: int, load: Load | None) -> bool:
        """Take what a driver reports; returns whether it says something new."""
        if load is None:
            self._loads.pop(instance_id, None)
            return False
        before = self._loads.get(instance_id)
        self._loads[instance_id] = (generation, load)
        return before != (generation, load)

    def of(self, instance_id: str, generation: int) -> Load | None:
        """The load of a driver of that generation; None where it is not known."""
        found = self._loads.get(instance_id)
        return found[1] if found is not None and found[0] == generation else None

    def follow(self, cluster_id: str, wanted: bool) -> bool:
        """Whether a change of the cluster's load is worth a pass from now on. Returns whether it was not, and is now."""
        fresh = wanted and cluster_id not in self._followed
        (self._followed.add if wanted else self._followed.discard)(cluster_id)
        return fresh

    def follows(self, cluster_id: str) -> bool:
        """Whether the cluster's size follows its load."""
        return cluster_id in self._followed

    def forget(self, instance_id: str) -> None:
        """The instance is gone."""
        self._loads.pop(instance_id, None)
