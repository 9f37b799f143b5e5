"""The Statement Execution API over a runner that stands in for Spark."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brickyard.store.store import Store
from tests.features.statements.test_statements import Office


@pytest.fixture
async def office(store: Store, tmp_path: Path) -> AsyncIterator[Office]:
    made = Office(store, tmp_path)
    yield made
    await made.statements.running.close()
