"""The simulated provider: thousands of instances in the server's process that compute nothing, for tests (docs/testing.md)."""

from __future__ import annotations

from brickyard.providers.base import Setup
from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import knobsfile
from brickyard.providers.simulated.knobsfile import Knobs
from brickyard.providers.simulated.provider import SimulatedProvider

__all__ = ["Knobs", "SimulatedProvider", "open_provider"]


def open_provider(setup: Setup) -> SimulatedProvider:
    """The factory that is registered as `simulated`."""
    path = setup.settings.simulated_knobs
    return SimulatedProvider(node_types=cloud_types(), knobs=knobsfile.read(path) if path else None, knobs_file=path)
