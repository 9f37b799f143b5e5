"""Whether a server is ready, while many ask."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brickyard.config.settings import Settings
from brickyard.server.lifecycle import Application
from brickyard.storage.directory import Storage
from tests.support.databases import empty_sqlite
from tests.support.runtimes import cache_dir


async def test_looks_at_the_storage_that_overlap_each_have_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at a time is made for all who ask; who asks when it has just ended begins the next one."""
    looks: list[None] = []

    def trouble(_storage: Storage) -> str:
        looks.append(None)
        return ""

    monkeypatch.setattr(Storage, "trouble", trouble)
    empty_sqlite(tmp_path / "brickyard.db")
    settings = Settings(data_dir=tmp_path, cache_dir=cache_dir(), background_training=False)
    async with Application.open(settings, server_url="http://127.0.0.1:1", workspace_key=bytes(32), admin_token="t") as made:
        while await made.ready():
            await asyncio.sleep(0.01)
        looks.clear()

        async def ask(after_s: float) -> str:
            await asyncio.sleep(after_s)
            return await made.ready()

        assert set(await asyncio.gather(*(ask(index / 5_000) for index in range(500)))) == {""}
        assert 1 < len(looks) < 500
        await made.close(keep_nodes=False)
