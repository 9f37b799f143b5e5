from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.world import World, world


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    """A server and room for agents; every process is ended afterwards."""
    with world(tmp_path) as made:
        yield made
