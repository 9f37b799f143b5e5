"""What commits have changed, by kind, for caches, loops and long polls."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from brickyard.domain.access import ObjectKind
from brickyard.domain.cluster import Instance

# The kinds, in messages to other servers.
_CLUSTER, _POOL, _RUN, _INSTANCE, _ENDED, _IDENTITY, _LOST, _SNAPSHOTS, _POLICY = "cprieulsg"
_WATCHED = (ObjectKind.CLUSTER, ObjectKind.CLUSTER_POLICY, ObjectKind.INSTANCE_POOL, ObjectKind.RUN)


class Lost(NamedTuple):
    """Somebody who can no longer see an object: the holder of a grant, or its owner by name."""

    kind: str
    id: str
    holder: str = ""
    owner: str = ""


class Changes(msgspec.Struct, kw_only=True):
    """The ids of what one or several commits may have changed."""

    clusters: set[str] = msgspec.field(default_factory=set)  # their public views
    pools: set[str] = msgspec.field(default_factory=set)  # their public views
    policies: set[str] = msgspec.field(default_factory=set)
    runs: set[int] = msgspec.field(default_factory=set)
    instances: set[str] = msgspec.field(default_factory=set)  # instances with a changed assignment
    ended: set[str] = msgspec.field(default_factory=set)  # instances that are no longer wanted, or lost
    identity: bool = False  # who may call, or with which rights: identities, groups or tokens
    snapshots: bool = False  # a snapshot is to be taken, or something is to be done with a workspace directory
    lost: set[Lost] = msgspec.field(default_factory=set)  # because the object or the grant is gone

    def __bool__(self) -> bool:
        rows = self.clusters or self.pools or self.policies or self.runs or self.instances or self.ended
        return bool(rows or self.identity or self.snapshots or self.lost)

    def add(self, other: Changes) -> None:
        """Merges the other changes into this."""
        self.clusters |= other.clusters
        self.pools |= other.pools
        self.policies |= other.policies
        self.runs |= other.runs
        self.instances |= other.instances
        self.ended |= other.ended
        self.identity |= other.identity
        self.snapshots |= other.snapshots
        self.lost |= other.lost

    def takes_from(self, kind: ObjectKind) -> bool:
        """Whether somebody may have lost a right to objects of that kind, which is a watched one."""
        return self.identity or any(each.kind == kind for each in self.lost)

    def wrote(self, instance: Instance) -> None:
        """Records that a row of the instance was written: the view of its cluster or pool changes with it."""
        if instance.cluster_id:
            self.clusters.add(instance.cluster_id)
        if instance.pool_id:
            self.pools.add(instance.pool_id)

    def lose(self, kind: ObjectKind, id: str, holders: Iterable[str], *, owner: str = "") -> None:
        """Records who can no longer see an object. Of kinds that nobody watches, nothing is recorded."""
        if kind in _WATCHED:
            self.lost.update(Lost(kind.value, id, holder=holder) for holder in holders)
            self.lost.update([Lost(kind.value, id, owner=owner)] if owner else [])

    def words(self) -> Iterator[str]:
        """Everything as words for `of_words`: ASCII without commas and blanks, in a fixed order."""
        named = (self.clusters, self.pools, self.policies, self.instances, self.ended)
        for kind, ids in zip((_CLUSTER, _POOL, _POLICY, _INSTANCE, _ENDED), named, strict=True):
            yield from (f"{kind}{each}" for each in sorted(ids))
        yield from (f"{_RUN}{each}" for each in sorted(self.runs))
        if self.identity:
            yield _IDENTITY
        if self.snapshots:
            yield _SNAPSHOTS
        yield from (_LOST + base64.urlsafe_b64encode(_encode(each)).decode() for each in sorted(self.lost))


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Lost).decode


def of_words(words: Iterable[str]) -> Changes:
    """The changes that another server announced. Kinds unknown to this version are ignored."""
    found = Changes()
    for word in words:
        kind, name = word[:1], word[1:]
        if kind == _CLUSTER:
            found.clusters.add(name)
        elif kind == _POOL:
            found.pools.add(name)
        elif kind == _POLICY:
            found.policies.add(name)
        elif kind == _RUN:
            found.runs.add(int(name))
        elif kind == _INSTANCE:
            found.instances.add(name)
        elif kind == _ENDED:
            found.ended.add(name)
        elif kind == _IDENTITY:
            found.identity = True
        elif kind == _SNAPSHOTS:
            found.snapshots = True
        elif kind == _LOST:
            found.lost.add(_decode(base64.urlsafe_b64decode(name)))
    return found
