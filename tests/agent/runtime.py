"""A runtime without Spark that Python environments can lie over, and the configuration of an agent that never runs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from brickyard.agent.config import AgentConfig
from brickyard.domain.runtimes import RuntimeManifest


def make_config(top: Path, name: str = "i-1") -> AgentConfig:
    made = AgentConfig(
        instance_id=name, agent_token="a", server_token="s", server_url="", instance_dir=str(top / name),
        cache_dir=str(top / "cache"), logs_dir=str(top / "logs"), node_code_dir="",
    )  # fmt: skip
    made.node_dir.mkdir(parents=True)
    return made


def make_runtime(top: Path) -> RuntimeManifest:
    """A runtime that holds `base` and `pyspark`, version 1.0."""
    venv = top / "runtime" / "venv"
    packages = venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    (venv / "bin").mkdir()
    real = Path(sys.executable).resolve()
    (venv / "bin" / "python").symlink_to(real)
    (venv / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
    (packages / "base.py").write_text("VERSION = '1.0'\n")
    for name in ("base", "pyspark"):
        (packages / f"{name}-1.0.dist-info").mkdir()
        (packages / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    version = ".".join(map(str, sys.version_info[:3]))
    return RuntimeManifest(
        environment="fake", spark_version="0", scala_version="0", home=str(venv.parent), python=str(venv / "bin" / "python"),
        python_version=version, python_base=sys.base_prefix, spark_home="", java_home="", java_real="", java_version="",
    )  # fmt: skip


@contextlib.asynccontextmanager
async def no_network(urls: Sequence[str]) -> AsyncIterator[None]:
    """Nodes share the machine's network."""
    yield None
