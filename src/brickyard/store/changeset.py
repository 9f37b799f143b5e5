"""What commits have changed, by kind, for caches, loops and long polls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from brickyard.domain.cluster import Instance

_CLUSTER, _POOL, _RUN, _INSTANCE = "cpri"  # the kinds, in messages to other servers


class Changes(msgspec.Struct, kw_only=True):
    """The ids of what one or several commits may have changed."""

    clusters: set[str] = msgspec.field(default_factory=set)  # their public views
    pools: set[str] = msgspec.field(default_factory=set)  # their public views
    runs: set[int] = msgspec.field(default_factory=set)
    instances: set[str] = msgspec.field(default_factory=set)  # instances with a changed assignment

    def __bool__(self) -> bool:
        return bool(self.clusters or self.pools or self.runs or self.instances)

    def add(self, other: Changes) -> None:
        """Merges the other changes into this."""
        self.clusters |= other.clusters
        self.pools |= other.pools
        self.runs |= other.runs
        self.instances |= other.instances

    def wrote(self, instance: Instance) -> None:
        """Records that a row of the instance was written: the view of its cluster or pool changes with it."""
        if instance.cluster_id:
            self.clusters.add(instance.cluster_id)
        if instance.pool_id:
            self.pools.add(instance.pool_id)

    def words(self) -> Iterator[str]:
        """Everything as words for `of_words`: ASCII without commas and blanks, in a fixed order."""
        for kind, ids in ((_CLUSTER, self.clusters), (_POOL, self.pools), (_RUN, self.runs), (_INSTANCE, self.instances)):
            yield from (f"{kind}{each}" for each in sorted(ids))


def of_words(words: Iterable[str]) -> Changes:
    """The changes that another server announced. Kinds unknown to this version are ignored."""
    found = Changes()
    for word in words:
        kind, name = word[:1], word[1:]
        if kind == _CLUSTER:
            found.clusters.add(name)
        elif kind == _POOL:
            found.pools.add(name)
        elif kind == _RUN:
            found.runs.add(int(name))
        elif kind == _INSTANCE:
            found.instances.add(name)
    return found
