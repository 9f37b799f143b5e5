"""The Ray provider: every instance is a named detached actor on one of a Ray cluster's machines (docs/ray.md).

`provider.py` is the server's side. Ray itself is in a process of its own (`link.py` runs `beside/`): its version, its Python and
its memory are not the server's, and it may end and start again.
"""

from __future__ import annotations

from brickyard.providers.base import Setup
from brickyard.providers.ray.provider import RayProvider
from brickyard.providers.ray.section import RaySection

__all__ = ["RayProvider", "open_provider"]


def open_provider(setup: Setup) -> RayProvider:
    """The factory registered as `ray`."""
    return RayProvider(setup, setup.section(RaySection, "ray"))
