"""The simulated provider: thousands of instances that compute nothing, for tests (docs/testing.md).

Its world lives in the server's process if the workspace has one server, and in a separate process if it may have several, or if a
knob says so.
"""

from __future__ import annotations

from brickyard.providers.base import Provider, Setup
from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import knobsfile
from brickyard.providers.simulated.knobsfile import Knobs
from brickyard.providers.simulated.provider import SimulatedProvider

__all__ = ["Knobs", "SimulatedProvider", "open_provider"]


def open_provider(setup: Setup) -> Provider:
    """The factory registered as `simulated`."""
    settings, path = setup.settings, setup.settings.simulated_knobs
    knobs = knobsfile.read(path) if path else None
    if settings.database_url.startswith("postgresql") or (knobs is not None and knobs.own_process):
        from brickyard.providers.simulated.remote import RemoteSimulatedProvider  # noqa: PLC0415 - only where it is used

        return RemoteSimulatedProvider(settings=settings, server_url=setup.server_url, node_types=cloud_types())
    return SimulatedProvider(node_types=cloud_types(), knobs=knobs, knobs_file=path, storage=setup.storage)
