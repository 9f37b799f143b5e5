"""Keeps a statement from taking effect twice when its client sends it again because it got no answer.

Clients repeat a request, unchanged, when its connection breaks. While the server lives, it knows: it noticed that the client was
gone, and gives the statement that still runs, or has run, to the repetition. If the server was killed, only Spark knows: before a
statement that may change something, a mark is set in its session, which is removed once the answer was sent. A server that finds
the mark of a statement that it does not run refuses the repetition once, with an error that clients do not retry.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from typing import Any, NamedTuple

from brickyard.domain.errors import ApiError
from brickyard.domain.statements import may_change
from brickyard.gateway.sql.driver import Driver, Target
from brickyard.gateway.sql.failures import OUTCOME_UNKNOWN, SqlFailed
from brickyard.gateway.sql.operations import GONE_S, Operation

MARK = "spark.brickyard.statement."
UNKNOWN = (
    "The connection to the server broke while this statement ran. It has run or still runs, and was not started again. Check its "
    "effect before you run it again."
)


class _Orphan(NamedTuple):
    operation: Operation
    until: float


class Repeats:
    """One per server."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._orphans: dict[tuple[str, ...], _Orphan] = {}
        self._unanswered: dict[tuple[str, ...], asyncio.Event] = {}  # set once there is an answer, or nobody who waits for one

    async def admit(self, target: Target, request: Any, operation_id: str) -> Operation | None:
        """The operation of the same request whose answer was lost; None: run it, with that id. Ends with `undelivered` or
        `over`. Raises SqlFailed: the statement has run before, and nobody knows whether its client knows."""
        key = _key(target, request)
        while (twin := self._unanswered.get(key)) is not None:
            await twin.wait()
        self._unanswered[key] = asyncio.Event()
        try:
            orphan = self._orphans.pop(key, None)
            if orphan is not None and orphan.until > time.monotonic():
                orphan.operation.touch()
                return orphan.operation
            if _changes(request):
                await self._mark(target, MARK + key[-1], operation_id)
        except BaseException:
            self._answered(key)
            raise
        return None

    async def _mark(self, target: Target, mark: str, operation_id: str) -> None:
        if await self._driver.setting(target, mark):
            await self._driver.unset(target, mark)
            raise SqlFailed(UNKNOWN, sql_state=OUTCOME_UNKNOWN)
        await self._driver.configure(target, {mark: operation_id})

    def _answered(self, key: tuple[str, ...]) -> None:
        if (event := self._unanswered.pop(key, None)) is not None:
            event.set()

    def undelivered(self, operation: Operation, request: Any) -> None:
        """Its client is gone before it had an answer."""
        now = time.monotonic()
        self._orphans = {key: orphan for key, orphan in self._orphans.items() if orphan.until > now}
        self._orphans[_key(operation.target, request)] = _Orphan(operation, now + GONE_S)
        operation.touch(GONE_S)
        self._answered(_key(operation.target, request))

    async def over(self, target: Target, request: Any) -> None:
        """Its client has the answer, or it was not run."""
        key = _key(target, request)
        try:
            if _changes(request):
                with contextlib.suppress(SqlFailed, ApiError):  # the session may be over, or its cluster
                    await self._driver.unset(target, MARK + key[-1])
        finally:
            self._answered(key)


def _changes(request: Any) -> bool:
    return may_change(request.statement or "")


def _key(target: Target, request: Any) -> tuple[str, ...]:
    """Equal for a request and its repetition."""
    digest = hashlib.sha256(repr((request.statement, request.parameters, request.runAsync)).encode())
    return (target.cluster_id, target.user, target.session_id, digest.hexdigest()[:32])
