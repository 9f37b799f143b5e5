"""A real Ray for the tests of a module, and a workspace on it for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.rays import RayCluster, ray_cluster
from tests.support.rayworld import World


@pytest.fixture(scope="module")
def ray() -> Iterator[RayCluster]:
    with ray_cluster() as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, ray: RayCluster) -> Iterator[World]:
    """Its instances end with the test."""
    made = World(tmp_path, ray)
    yield made
    if made.providers:
        made.end(*made.providers[-1].observe())
    made.close()
