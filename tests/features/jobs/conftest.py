"""Jobs on a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.store.store import Store
from tests.features.jobs.world import Jobs
from tests.support.desk import ADMIN, USER, Desk
from tests.support.people import enter


@pytest.fixture
async def jobs(desk: Desk, store: Store, tmp_path: Path) -> Jobs:
    await store.write(lambda tx: enter(tx, ADMIN, USER))
    return Jobs(desk, store, tmp_path)
