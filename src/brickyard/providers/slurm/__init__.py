"""Slurm: every instance is a job."""

from __future__ import annotations

import os
import sys

from brickyard.providers.base import Setup
from brickyard.providers.slurm.commands import Commands
from brickyard.providers.slurm.jobs import Client
from brickyard.providers.slurm.provider import SlurmProvider
from brickyard.providers.slurm.rest import Rest
from brickyard.providers.slurm.section import read_section

__all__ = ["SlurmProvider", "open_provider"]


def open_provider(setup: Setup) -> SlurmProvider:
    """The factory registered as `slurm`. Raises SetupError."""
    section = read_section(setup)
    client: Client = Rest(section) if section.rest_url else Commands(section, os.environ)
    return SlurmProvider(setup=setup, section=section, client=client, python=sys.executable)
