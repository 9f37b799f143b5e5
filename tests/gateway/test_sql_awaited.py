"""Sessions that are opened with a schema before it exists, on two servers before a Spark Connect that is a fake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from databricks.sql.thrift_api.TCLIService import ttypes

from brickyard.gateway.sql import awaited
from brickyard.gateway.sql.handles import session_ids
from tests.gateway.sqlworld import SqlWorld, sql_world

SHOP = ttypes.TNamespace(schemaName="shop")


def schema(w: SqlWorld, session: Any) -> str:
    """In which the session is."""
    return w.spark.schemas.get(("me@example.com", session_ids(session)[0]), "default")


async def test_a_session_is_in_its_schema_once_it_exists_on_any_server(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        w.spark.missing = {"shop"}
        session = await w.session(token, initialNamespace=SHOP)
        for server in (w.entrance, w.other):
            await w.begin(token, session, "SELECT 1", entrance=server)
            assert schema(w, session) == "default"
        w.spark.missing.clear()
        await w.begin(token, session, "SELECT 2", entrance=w.other)
        assert schema(w, session) == "shop"
        await w.begin(token, session, "USE SCHEMA `default`", entrance=w.other)
        await w.begin(token, session, "SELECT 3")
        assert schema(w, session) == "default", "it waits for nothing more, on any server"
        assert not any(w.spark.sessions.values())


async def test_a_session_that_has_gone_to_another_schema_stays_there(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        w.spark.missing = {"shop"}
        session = await w.session(token, initialNamespace=SHOP)
        await w.begin(token, session, "USE SCHEMA `other`")
        w.spark.missing.clear()
        for server in (w.entrance, w.other):
            await w.begin(token, session, "SELECT 1", entrance=server)
            assert schema(w, session) == "other"


async def test_what_a_server_knows_of_sessions_saves_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited, "MAX_SETTLED", 1)
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")

        async def calls(session: Any, **how: Any) -> list[str]:
            w.spark.calls.clear()
            await w.begin(token, session, "SELECT 1", **how)
            return [name for name in w.spark.calls if name != "ReleaseExecute"]

        session = await w.session(token, initialNamespace=SHOP)
        assert w.spark.ran == ["USE SCHEMA `shop`"]
        assert w.spark.calls == ["Config", "ExecutePlan", "ReleaseExecute"]
        assert await calls(session) == ["ExecutePlan"]
        assert await calls(session, entrance=w.other) == ["Config", "ExecutePlan"]
        assert await calls(session, entrance=w.other) == ["ExecutePlan"]
        other = await w.session(token)
        assert await calls(other) == ["ExecutePlan"]
        assert await calls(session) == ["Config", "ExecutePlan"]
        assert await calls(session) == ["ExecutePlan"]
        w.spark.missing = {"shop"}
        waiting = await w.session(token, initialNamespace=SHOP)
        assert await calls(waiting) == ["Config", "ExecutePlan", "ExecutePlan", "ExecutePlan"]
        w.spark.missing.clear()
        assert await calls(waiting) == ["Config", "ExecutePlan", "ExecutePlan", "Config", "ExecutePlan"]
        assert await calls(waiting) == ["ExecutePlan"]
