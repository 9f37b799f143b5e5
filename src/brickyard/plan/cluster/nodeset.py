"""A cluster's nodes during a planning pass, sorted as they change. Pure.

A pass asks hundreds of times which nodes are there, and changes nodes in between. So a change costs the same, however many nodes
there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from brickyard.domain.cluster import Instance
from brickyard.domain.node import Role


class NodeSet(dict[str, Instance]):
    """Instances by id. `live` are those that are not being ended or returned, `current` those of them in the cluster's present
    incarnation: `driver` and `workers`. `touched` are the ids of those that the pass has changed."""

    def __init__(self, instances: Iterable[Instance], *, incarnation: int) -> None:
        super().__init__()
        self._incarnation = incarnation
        self._live: dict[str, Instance] = {}
        self._current: dict[str, Instance] = {}
        self._workers: dict[str, Instance] = {}
        self._drivers: dict[str, Instance] = {}
        self._tuples: dict[int, tuple[Instance, ...]] = {}  # by the dict that they copy, until the next change
        self.on_demand = 0  # current nodes that are no spot instances
        self.touched: set[str] = set()
        for instance in instances:
            super().__setitem__(instance.instance_id, instance)
            self._place(instance.instance_id, instance)

    def __setitem__(self, instance_id: str, node: Instance) -> None:
        self.touched.add(instance_id)
        super().__setitem__(instance_id, node)
        self._place(instance_id, node)

    def __delitem__(self, instance_id: str) -> None:
        self.touched.add(instance_id)
        super().__delitem__(instance_id)
        self._place(instance_id, None)

    @property
    def live(self) -> tuple[Instance, ...]:
        return self._tuple(self._live)

    @property
    def current(self) -> tuple[Instance, ...]:
        return self._tuple(self._current)

    @property
    def workers(self) -> tuple[Instance, ...]:
        return self._tuple(self._workers)

    @property
    def num_workers(self) -> int:
        """How many current workers there are, without a copy of them."""
        return len(self._workers)

    @property
    def driver(self) -> Instance | None:
        return next(iter(self._drivers.values()), None)

    def _place(self, instance_id: str, node: Instance | None) -> None:
        """Puts the node where it belongs. One that stays there keeps its place in the order."""
        self._tuples.clear()
        before = self._current.get(instance_id)
        live = node is not None and node.live and not node.releasing_ms
        current = live and node is not None and node.generation == self._incarnation
        worker = node is not None and node.role is Role.WORKER
        for found, belongs in (
            (self._live, live),
            (self._current, current),
            (self._workers, current and worker),
            (self._drivers, current and not worker),
        ):
            if belongs and node is not None:
                found[instance_id] = node
            else:
                found.pop(instance_id, None)
        self.on_demand += int(current and node is not None and not node.spot) - int(before is not None and not before.spot)

    def _tuple(self, of: Mapping[str, Instance]) -> tuple[Instance, ...]:
        """A copy, so that a phase may change nodes while it goes through them."""
        found = self._tuples.get(id(of))
        if found is None:
            found = self._tuples[id(of)] = tuple(of.values())
        return found
