"""Schemas with which sessions were opened before they exist: a client such as dbt creates its own later."""

from __future__ import annotations

from brickyard.gateway.sql.driver import Driver, Target
from brickyard.gateway.sql.failures import SqlFailed
from brickyard.gateway.sql.metadata import quoted

MAX_AWAITED = 2_000


class AwaitedSchemas:
    """One per server. Until its schema exists, a session is in `default`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._of: dict[str, str] = {}  # session -> schema

    async def expect(self, target: Target, schema: str) -> None:
        """Use the schema in the session now, or as soon as it exists. Raises SqlFailed."""
        while len(self._of) >= MAX_AWAITED:  # sessions that ended without a word
            del self._of[next(iter(self._of))]
        self._of[target.session_id] = schema
        await self.use(target)

    async def use(self, target: Target) -> None:
        """Use the schema that the session waits for, if it exists. Raises SqlFailed."""
        if schema := self._of.get(target.session_id):
            try:
                await self._driver.run(target, f"USE SCHEMA {quoted(schema)}")
            except SqlFailed as error:
                if "SCHEMA_NOT_FOUND" in error.text:
                    return
                raise
            self.forget(target)

    def forget(self, target: Target) -> None:
        """The session waits for nothing."""
        self._of.pop(target.session_id, None)
