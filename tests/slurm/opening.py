"""Providers on a Slurm of the tests, as servers open them."""

from __future__ import annotations

import sys
from pathlib import Path

from brickyard.config import Settings
from brickyard.providers.base import LaunchRequest, Setup
from brickyard.providers.slurm import SlurmProvider
from brickyard.providers.slurm.commands import Commands
from brickyard.providers.slurm.jobs import Client
from brickyard.providers.slurm.rest import Rest
from brickyard.providers.slurm.section import read_section
from tests.agent.world import SERVER_TOKEN
from tests.support.slurm import Slurm

WORKSPACE = "1234567890123456"


def setup(tmp_path: Path, server_url: str = "http://127.0.0.1:1", **section: object) -> Setup:
    """What a server gives the provider: a storage of this workspace, and settings."""
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    (data / "workspace.id").write_text(WORKSPACE)
    given = {"machine_dir": str(tmp_path / "machine"), **section}
    settings = Settings(data_dir=data, cache_dir=tmp_path / "cache", provider="slurm", sections={"slurm": given})
    return Setup(settings=settings, server_url=server_url, workspace_id=WORKSPACE, runtimes=())


def client(slurm: Slurm, made: Setup) -> Client:
    section = read_section(made)
    return Rest(section) if section.rest_url else Commands(section, slurm.environ)


def opened(slurm: Slurm, made: Setup, *, over: Client | None = None, python: str = sys.executable) -> SlurmProvider:
    """The provider; `over`: another way to Slurm."""
    section = read_section(made)
    return SlurmProvider(
        setup=made, section=section, client=over or client(slurm, made), python=python, environ=slurm.environ
    )  # fmt: skip


def request(provider: SlurmProvider, instance_id: str, *, server_url: str = "http://127.0.0.1:1") -> LaunchRequest:
    """For an instance of the first node type, whose server is `tests.agent.world.FakeServer`."""
    return LaunchRequest(
        instance_id=instance_id,
        node_type=provider.node_types()[0],
        server_url=server_url,
        agent_token="agent-secret",
        server_token=SERVER_TOKEN,
    )
