"""What the tests of services stand on."""

from __future__ import annotations

import pytest

from brickyard.store.store import Store
from tests.services.desk import Desk
from tests.services.world import World


@pytest.fixture
def desk(store: Store) -> Desk:
    """The cluster service."""
    return Desk(store)


@pytest.fixture
def world(store: Store) -> World:
    """Users, their tokens and sessions."""
    return World(store)
