"""The embedded provider: every instance is an agent process on this machine."""

from __future__ import annotations

from brickyard.providers.base import Setup
from brickyard.providers.bootstrap import environments_of
from brickyard.providers.local.launching import loopback_address
from brickyard.providers.local.provider import LocalProvider

__all__ = ["LocalProvider", "loopback_address", "open_provider"]


def open_provider(setup: Setup) -> LocalProvider:
    """The factory registered as `local`."""
    return LocalProvider(settings=setup.settings, server_file=setup.server_file, environments=environments_of(setup.runtimes))
