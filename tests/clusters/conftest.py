"""What the tests of services stand on."""

from __future__ import annotations

import pytest

from brickyard.store.store import Store
from tests.support.credentials import World
from tests.support.desk import Desk


@pytest.fixture
def desk(store: Store) -> Desk:
    """The cluster service."""
    return Desk(store)


@pytest.fixture
def world(store: Store) -> World:
    """Users, their tokens and sessions."""
    return World(store)
