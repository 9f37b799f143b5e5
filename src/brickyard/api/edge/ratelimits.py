"""Rate limits of principals: each server counts for itself."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping

from brickyard.access.buckets import Buckets
from brickyard.api.edge.registry import Auth, Operation
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Monotonic
from brickyard.domain.errors import RequestLimitExceeded
from brickyard.domain.ratelimits import limit_of
from brickyard.plan.ratelimits import Limit

BURST_S = 10.0  # a principal that was idle may make this many seconds' worth of calls at once


class RateLimits:
    """`rates` are calls a second, by name (`domain.ratelimits`). A principal has one bucket for all operations of a limit."""

    def __init__(
        self, rates: Mapping[str, float], operations: Iterable[Operation], *, monotonic: Monotonic = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._rates = rates
        buckets = {name: Buckets(Limit(max(1.0, rate * BURST_S), 1 / rate)) for name, rate in rates.items()}
        self._limited: dict[str, tuple[str, Buckets]] = {
            operation.name: (name, buckets[name])
            for operation in operations
            if operation.auth is Auth.USER
            if (name := limit_of(operation.name, rates)) is not None
        }

    def take(self, operation: str, caller: Caller) -> None:
        """Counts a call. Raises RequestLimitExceeded if the principal has to wait; such a call does not count."""
        limited = self._limited.get(operation)
        if limited is None:
            return
        name, buckets = limited
        now = self._monotonic()
        if wait := buckets.wait_s(caller.user_id, now):
            raise RequestLimitExceeded(
                f"{caller.user_name} has reached the rate limit: {self._rates[name]:g} calls a second of "
                f"{'any kind' if name == '*' else name}. Try again in {math.ceil(wait)} s.",
                retry_after_s=math.ceil(wait),
            )
        buckets.spend(caller.user_id, now)
