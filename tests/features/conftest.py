"""Features stand on the same things as clusters."""

from __future__ import annotations

from tests.clusters.conftest import desk, world

__all__ = ["desk", "world"]
