"""Providers on a Slurm of the tests, as servers open them."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

from brickyard.config.settings import Settings
from brickyard.providers.base import LaunchRequest, Setup
from brickyard.providers.slurm import SlurmProvider
from brickyard.providers.slurm.commands import Commands
from brickyard.providers.slurm.jobs import Client
from brickyard.providers.slurm.rest import Rest
from brickyard.providers.slurm.section import read_section
from tests.agent.world import SERVER_TOKEN
from tests.support.slurm import Slurm


def setup(tmp_path: Path, server_url: str = "http://127.0.0.1:1", **section: object) -> Setup:
    """What the server of a new workspace gives the provider: a storage, and settings."""
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    workspace_id = str(secrets.randbelow(9 * 10**15) + 10**15)
    (data / "workspace.id").write_text(workspace_id)
    given = {"machine_dir": str(tmp_path / "machine"), **section}
    settings = Settings(data_dir=data, cache_dir=tmp_path / "cache", provider="slurm", sections={"slurm": given})
    return Setup(settings=settings, server_url=server_url, workspace_id=workspace_id, runtimes=())


def client(slurm: Slurm, made: Setup) -> Client:
    section = read_section(made)
    return Rest(section) if section.rest_url else Commands(section, slurm.environ)


def opened(slurm: Slurm, made: Setup, *, over: Client | None = None, python: str = sys.executable) -> SlurmProvider:
    """The provider; `over`: another way to Slurm."""
    section = read_section(made)
    return SlurmProvider(
        setup=made, section=section, client=over or client(slurm, made), python=python, environ=slurm.environ
    )  # fmt: skip


def request(provider: SlurmProvider, instance_id: str, node_type_id: str, *, server_url: str) -> LaunchRequest:
    """For an instance whose server is `tests.agent.world.FakeServer`."""
    return LaunchRequest(
        instance_id=instance_id,
        node_type=next(each for each in provider.node_types() if each.node_type_id == node_type_id),
        server_url=server_url,
        agent_token="agent-secret",
        server_token=SERVER_TOKEN,
    )
