"""What commits have changed, by kind: what caches, loops and long polls are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from brickyard.domain.cluster import Instance

_CLUSTER, _POOL, _RUN, _INSTANCE = "cpri"  # the kinds, in what is told to other servers


class Changes(msgspec.Struct, kw_only=True):
    """Ids of what one commit, or several, may have changed."""

    clusters: set[str] = msgspec.field(default_factory=set)  # their public views
    pools: set[str] = msgspec.field(default_factory=set)  # their public views
    runs: set[int] = msgspec.field(default_factory=set)
    instances: set[str] = msgspec.field(default_factory=set)  # those with another assignment

    def __bool__(self) -> bool:
        return bool(self.clusters or self.pools or self.runs or self.instances)

    def add(self, other: Changes) -> None:
        """Have in this what is in the other as well."""
        self.clusters |= other.clusters
        self.pools |= other.pools
        self.runs |= other.runs
        self.instances |= other.instances

    def wrote(self, instance: Instance) -> None:
        """A row of the instance was written: whoever has it shows it."""
        if instance.cluster_id:
            self.clusters.add(instance.cluster_id)
        if instance.pool_id:
            self.pools.add(instance.pool_id)

    def words(self) -> Iterator[str]:
        """Everything as words for `of_words`: ASCII without commas and blanks, in one order."""
        for kind, ids in ((_CLUSTER, self.clusters), (_POOL, self.pools), (_RUN, self.runs), (_INSTANCE, self.instances)):
            yield from (f"{kind}{each}" for each in sorted(ids))


def of_words(words: Iterable[str]) -> Changes:
    """What another server told. Kinds that this version does not know concern nobody here."""
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
