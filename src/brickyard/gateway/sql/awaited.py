"""Schemas with which sessions were opened before they exist: a client such as dbt creates its own later.

Spark holds the schema for which a session waits, as a setting of the session: every server finds it there.
"""

from __future__ import annotations

from brickyard.gateway.sql.driver import Driver, Target
from brickyard.gateway.sql.failures import SqlFailed
from brickyard.gateway.sql.metadata import Metadata, quoted

AWAITED = "spark.brickyard.awaited.schema"  # where the session began, a line break, the schema
MAX_SETTLED = 2_000


class AwaitedSchemas:
    """One per server. Until its schema exists, a session is where it began: in `default`. Methods raise SqlFailed."""

    def __init__(self, driver: Driver, metadata: Metadata) -> None:
        self._driver = driver
        self._metadata = metadata
        self._settled: dict[tuple[str, ...], None] = {}  # sessions that wait for nothing; of others, Spark is asked

    async def begin(self, target: Target, schema: str) -> None:
        """Use the schema in the new session now, or as soon as it exists. "": the session has none to wait for."""
        if schema and not await self._used(target, schema):
            place = await self._metadata.place(target)
            await self._driver.configure(target, {AWAITED: f"{place}\n{schema}"})
        else:
            self._settle(target)

    async def use(self, target: Target) -> None:
        """Use the schema that the session waits for, if it exists. A session that has left where it began stays where it is."""
        if target[:3] in self._settled:
            return
        if awaited := await self._driver.setting(target, AWAITED):
            began, _, schema = awaited.partition("\n")
            if await self._metadata.place(target) == began and not await self._used(target, schema):
                return
            await self._driver.unset(target, AWAITED)
        self._settle(target)

    async def _used(self, target: Target, schema: str) -> bool:
        try:
            await self._driver.run(target, f"USE SCHEMA {quoted(schema)}")
        except SqlFailed as error:
            if "SCHEMA_NOT_FOUND" in error.text:
                return False
            raise
        return True

    def _settle(self, target: Target) -> None:
        while len(self._settled) >= MAX_SETTLED:  # sessions that ended without a word
            del self._settled[next(iter(self._settled))]
        self._settled[target[:3]] = None

    def forget(self, target: Target) -> None:
        """The session has ended."""
        self._settled.pop(target[:3], None)
