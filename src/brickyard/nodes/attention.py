"""How often agents report while nothing changes.

A report that says nothing new costs a server as much as one that does, and most of them only bring samples that nobody looks at
now. So agents keep their samples and bring several at once, with their long polls (`domain.node.Poll`), unless somebody looks at
the cluster, or its size or its end depends on what its nodes do. Whatever changes is reported at once in any case.

Where several servers share the database, agents report often: reports are how they notice that their server hangs.
"""

from __future__ import annotations

import time

from brickyard.domain.clock import Monotonic
from brickyard.domain.node import REPORT_S
from brickyard.store.membership import ALONE
from brickyard.store.sharing import Sharing

SELDOM_S = 40.0
SPARE_S = 20.0  # of the time after which an agent counts as lost: it calls again 12 s after an answer that did not come
LOOKED_S = 60.0  # for how long a look at a cluster counts: pages that show it ask again all the time


def seldom_s(*, silence_s: float, orphan_grace_s: float) -> float:
    """How seldom agents may report at most: neither may they be taken for lost, nor may they take the server for gone, because of
    one report that does not arrive."""
    return max(REPORT_S, min(SELDOM_S, max(silence_s / 2, silence_s - SPARE_S), orphan_grace_s / 4))


class Attention:
    """One per server, for its event loop."""

    def __init__(
        self,
        *,
        sharing: Sharing = ALONE,
        seldom_s: float = REPORT_S,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._sharing = sharing
        self._seldom_s = seldom_s
        self._monotonic = monotonic
        self._looked: dict[str, float] = {}  # clusters that somebody looks at, and until when that counts
        self._needed: set[str] = set()  # clusters whose size or end depends on what their nodes do

    def look(self, cluster_id: str) -> bool:
        """Somebody looks at what the cluster's nodes use. Returns whether they have to report more often from now on."""
        now, before = self._monotonic(), self.pause_s(cluster_id)
        self._looked = {key: until for key, until in self._looked.items() if until > now}
        self._looked[cluster_id] = now + LOOKED_S
        return self.pause_s(cluster_id) < before

    def need(self, cluster_id: str, needed: bool) -> bool:
        """Sets whether the cluster's size or end depends on what its nodes do. Returns as `look` does."""
        before = self.pause_s(cluster_id)
        if needed:
            self._needed.add(cluster_id)
        else:
            self._needed.discard(cluster_id)
        return self.pause_s(cluster_id) < before

    def pause_s(self, cluster_id: str) -> float:
        """How long the agents of the cluster's nodes may wait with a report that says nothing new."""
        if cluster_id in self._needed or not self._sharing.alone or self._looked.get(cluster_id, 0.0) > self._monotonic():
            return REPORT_S
        return self._seldom_s
