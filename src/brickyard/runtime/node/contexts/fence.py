"""Which names of contexts or commands are over, for as long as the node lives, in bounded memory."""

from __future__ import annotations

import heapq


class Fence:
    """Keeps what is over from beginning again when a request for it arrives late.

    Names begin with the time at which the workspace gave them (`Ids.timed`), so they have an order. The newest `limit` names are
    remembered one by one; of all older ones only the newest, and every name up to that one counts as over. Not safe for several
    threads.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._names: set[str] = set()
        self._oldest_first: list[str] = []
        self._floor = ""

    def close(self, name: str) -> None:
        """Records that a name is over."""
        if self.known(name) or name <= self._floor:
            return
        self._names.add(name)
        heapq.heappush(self._oldest_first, name)
        if len(self._names) > self._limit:
            self._floor = heapq.heappop(self._oldest_first)
            self._names.remove(self._floor)

    def known(self, name: str) -> bool:
        """Whether that very name was recorded, as far as is remembered."""
        return name in self._names

    def refuses(self, name: str) -> bool:
        """Whether a name is over, or older than all that is remembered."""
        return name in self._names or name <= self._floor
