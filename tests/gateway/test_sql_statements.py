"""Statements of the Statement Execution API before a Spark Connect that is a fake."""

from __future__ import annotations

import asyncio
from pathlib import Path

from brickyard.access.principals import active_principal, caller_of
from brickyard.domain.caller import Caller
from brickyard.features.statements.model import Part, Query
from brickyard.gateway.sqlstatements import StatementRunner
from brickyard.testing.builders import cluster
from tests.gateway.sqlworld import SqlWorld, sql_world
from tests.gateway.world import CLUSTER_ID

ME = "me@example.com"


async def caller(w: SqlWorld) -> Caller:
    await w.world.token(ME)
    found = await w.world.store.read(lambda tx: active_principal(tx, ME))
    assert found is not None
    return caller_of(found, token_id="")


async def test_a_statement_that_waits_for_its_warehouse_ends_at_once(tmp_path: Path) -> None:
    async with sql_world(tmp_path, patience_s=60) as w:
        who = await caller(w)
        runner = StatementRunner(entrance=lambda: w.entrance, store=w.world.store, clock=w.world.clock)
        await w.world.set(cluster())

        async def run() -> list[Part]:
            query = Query("00000000-0000-4000-8000-000000000001", "SELECT 1", "w1", CLUSTER_ID)
            return [part async for part in runner.run(who, query)]

        running = asyncio.create_task(run())
        await asyncio.sleep(0.3)
        assert not running.done()
        running.cancel()
        await asyncio.wait({running}, timeout=5)
        assert running.cancelled()
