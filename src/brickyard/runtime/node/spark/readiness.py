"""What a driver that has started cold does until somebody asks for something: usual first queries, on rows of nobody's.

Whoever starts a cluster needs a moment to write the first command. Without this, the driver and its executors would load
classes and compile methods only then; so they do it in that moment. Nothing of it is in the SQL history, and its jobs say
what they are. It begins only when nobody has used the cluster for a while, gives way while the machine's processors are busy,
and stops at the first request, after the query that runs. What fails only costs the first command time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from . import usual
from .pauses import Pauses

PAUSE_S = 1.0  # most programs send their first command at once, and shall have the machine for themselves
PATIENCE_S = 30.0  # executors may be lost meanwhile
MOST_TASKS = 64
GROUP, DESCRIPTION = "brickyard-readiness", "Brickyard: getting ready for first commands"
DYNAMIC = "spark.dynamicAllocation.enabled"  # then tasks ask for executors


class Driver(Protocol):
    """What it needs of a driver (driver.py)."""

    def setting(self, key: str) -> str: ...

    def slots(self) -> int: ...

    def group(self, name: str, description: str) -> AbstractContextManager[None]: ...

    def queries(self, partitions: int) -> Callable[[str], int]: ...


class Users(Protocol):
    """Who uses the driver."""

    def unused(self) -> bool:
        """Whether nobody has asked the driver for anything."""
        ...

    def cancel_group(self, group: str) -> None:
        """Ends a group's jobs. Raises nothing."""
        ...


class Readiness:
    """One driver's. `run` is for one thread."""

    def __init__(
        self,
        driver: Driver,
        users: Users,
        *,
        cut: threading.Event,
        pauses: Pauses | None = None,
    ) -> None:
        """`cut`: set when the driver ends."""
        self._driver, self._users, self._cut = driver, users, cut
        self._late = threading.Event()
        self._pauses = pauses or Pauses()

    def run(self) -> int:
        """Runs the queries, and returns how many it has run. Raises what they raise."""
        if self._driver.setting(DYNAMIC) == "true" or self._cut.wait(PAUSE_S) or not self._users.unused():
            return 0
        done = 0
        patience = threading.Timer(PATIENCE_S, self._give_up)
        patience.daemon = True
        patience.start()
        try:
            with self._driver.group(GROUP, DESCRIPTION):
                tasks = max(1, min(self._driver.slots(), MOST_TASKS))  # each executor has some, and none waits for a free one
                query = self._driver.queries(tasks)
                statements = (usual.aggregation(7, tasks), usual.join(5, tasks), usual.aggregation(8, tasks))
                for statement in self._pauses.between(statements, self._cut):
                    if self._late.is_set() or not self._users.unused():
                        break
                    query(statement)
                    done += 1
            return done
        finally:
            patience.cancel()

    def _give_up(self) -> None:
        self._late.set()
        self._users.cancel_group(GROUP)
