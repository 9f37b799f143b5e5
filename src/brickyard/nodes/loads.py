"""The last reported load of each driver.

A load changes every second while a cluster works, and is worthless once it is old: after a restart the next heartbeat brings a
new one. A server that is alone keeps loads in memory. If several servers share a database, a cluster's pass may run on a server
that its driver does not report to; that server reads the load from the database (`hearing.py`).
"""

from __future__ import annotations

import time

import msgspec

from brickyard.domain.clock import Monotonic
from brickyard.domain.node import Load
from brickyard.store.membership import ALONE
from brickyard.store.sharing import Sharing
from brickyard.store.tx import Tx

OWN_S = 6.0  # drivers report every 5 s: one that has not may be reporting to another server
OLD_S = 15.0  # an older load says nothing about a working driver
ASK_AGAIN_S = 30.0  # another server may have seen since that the cluster follows its load


class _Told(msgspec.Struct, frozen=True):
    generation: int
    load: Load
    at_s: float = 0.0  # set only on the server that heard it


_decode_told = msgspec.json.Decoder(_Told).decode


class Loads:
    """Read on the store's threads, written on the event loop: every entry is immutable and is replaced as a whole."""

    def __init__(self, *, sharing: Sharing = ALONE, monotonic: Monotonic = time.monotonic) -> None:
        self._sharing = sharing
        self._monotonic = monotonic
        self._loads: dict[str, _Told] = {}
        self._followed: dict[str, tuple[bool, float]] = {}  # whether a cluster's size follows its load, and when that was seen

    def hear(self, instance_id: str, generation: int, load: Load | None) -> bool:
        """Records a driver's report. Returns whether it differs from the last one."""
        if load is None:
            self._loads.pop(instance_id, None)
            return False
        before = self._loads.get(instance_id)
        self._loads[instance_id] = _Told(generation, load, self._monotonic())
        return before is None or (before.generation, before.load) != (generation, load)

    def of(self, tx: Tx, instance_id: str, generation: int) -> Load | None:
        """The load of the driver in that generation, or None if unknown."""
        found = self._loads.get(instance_id)
        if not self._sharing.alone and (found is None or self._monotonic() - found.at_s > OWN_S):
            written = tx.heard.load(instance_id, within_ms=int(OLD_S * 1000))
            found = None if written is None else _decode_told(written)
        return found.load if found is not None and found.generation == generation else None

    def told(self, instance_id: str) -> str | None:
        """The load as it is written down for other servers."""
        found = self._loads.get(instance_id)
        return None if found is None else msgspec.json.encode(_Told(found.generation, found.load)).decode()

    def follow(self, cluster_id: str, wanted: bool) -> bool:
        """Sets whether a change of the cluster's load warrants a pass. Returns whether that has just become true."""
        before, _ = self._followed.get(cluster_id, (False, 0.0))
        if wanted or not self._sharing.alone:
            self._followed[cluster_id] = (wanted, self._monotonic())
        else:
            self._followed.pop(cluster_id, None)
        return wanted and not before

    def follows(self, cluster_id: str) -> bool:
        """Whether the cluster's size follows its load. Also True if another server may know better: a pass finds out."""
        wanted, seen_s = self._followed.get(cluster_id, (False, float("-inf")))
        return wanted or (not self._sharing.alone and self._monotonic() - seen_s > ASK_AGAIN_S)

    def forget(self, instance_id: str) -> None:
        """Drops the instance, which is gone."""
        self._loads.pop(instance_id, None)
