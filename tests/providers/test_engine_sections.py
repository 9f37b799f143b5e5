"""Settings of engines' providers: a table of the TOML file, variables, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from brickyard.agent.unit import Unit
from brickyard.cli.up import as_environment
from brickyard.config.load import load
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import LaunchRequest, Setup, SetupError
from brickyard.providers.engines.sections import EngineSection
from brickyard.providers.engines.units import unit
from brickyard.runtime.catalogue import rows
from tests.support.golden import Golden


class Section(EngineSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    address: str = ""
    patience_s: float = 10.0


def setup(tmp_path: Path, text: str = "", **environ: str) -> Setup:
    file = tmp_path / "brickyard.toml"
    file.write_text(text)
    settings = load(config_file=file, environ=environ, options={"data_dir": str(tmp_path)})
    return Setup(settings=settings, server_url="https://server:8443", workspace_id="1234567890123456", runtimes=rows())


def test_a_table_and_variables(tmp_path: Path) -> None:
    text = """
provider = "simulated"
[simulated]
address = "one"
[[simulated.node_types]]
node_type_id = "big"
num_cores = 16
memory_mb = 65536
num_gpus = 2
"""
    section = setup(tmp_path, text, BRICKYARD_SIMULATED_PATIENCE_S="3").section(Section, "simulated")
    assert (section.address, section.patience_s) == ("one", 3.0)
    (big,) = section.named_types()
    assert (big.node_type_id, big.num_cores, big.num_gpus, big.category) == ("big", 16.0, 2, "GPU Accelerated")


def test_a_server_in_the_background_gets_the_same_table(tmp_path: Path) -> None:
    text = """
provider = "simulated"
[simulated]
address = "[::1]:6379"
patience_s = 2.5
[[simulated.node_types]]
node_type_id = "big"
num_cores = 16
memory_mb = 65536
engine = { disk = "fast" }
"""
    first = setup(tmp_path, text)
    again = load(environ=as_environment(first.settings))
    second = Setup(settings=again, server_url="", workspace_id="", runtimes=())
    assert second.section(Section, "simulated") == first.section(Section, "simulated")


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('adress = "x"', "simulated.adress"),
        ("patience_s = []", "simulated.patience_s"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, line: str, field: str, golden: Golden) -> None:
    with golden.refused(SetupError, field):
        setup(tmp_path, f"[simulated]\n{line}\n").section(Section, "simulated")


def test_a_unit_has_what_the_agent_needs_anywhere(tmp_path: Path) -> None:
    section = Section(machine_storage_dir="/mnt/brickyard")
    kind = NodeType(node_type_id="t", num_cores=2.0, memory_mb=4096, category="x", num_gpus=1)
    request = LaunchRequest(
        instance_id="i-1", node_type=kind, server_url="https://server:8443", agent_token="a", server_token="s"
    )
    made = msgspec.json.decode(unit(request, setup(tmp_path), section), type=Unit)
    assert (made.workspace_id, made.storage_dir, made.gpus) == ("1234567890123456", "/mnt/brickyard", 1)
    assert (made.config.dbfs_dir, made.config.cores, made.config.memory_mb) == ("/mnt/brickyard/dbfs", 2.0, 4096)
    assert str(tmp_path) not in msgspec.json.encode(made).decode()
