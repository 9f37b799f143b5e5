"""Notes in the audit log that somebody looks at what a cluster serves: the beginning, not each request."""

from __future__ import annotations

import time

from brickyard.domain.caller import Caller
from brickyard.domain.notes import Note

NOTED_S = 3_600.0  # who goes on is noted once in this time
MAX_NOTED = 10_000


class OncePerHour:
    """Notes the same thing of the same user and address once an hour."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._noted: dict[tuple[str, ...], float] = {}

    def __call__(self, operation: str, caller: Caller, *, address: str, **objects: str) -> None:
        key, now = (operation, caller.user_name, address, *objects.values()), time.monotonic()
        if key in self._noted and now < self._noted[key] + NOTED_S:
            return
        self._noted[key] = now
        if len(self._noted) > MAX_NOTED:
            del self._noted[next(iter(self._noted))]
        self._note(operation, caller, address=address, **objects)
