from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.machine import Machine
from tests.agent.world import World, world


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    """A server and room for agents; every process is ended afterwards."""
    with world(tmp_path) as made:
        yield made


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    conf = tmp_path / "pip.conf"
    conf.write_text(
        f"[global]\nindex-url = {(tmp_path / 'simple').as_uri()}\nextra-index-url = {(tmp_path / 'simple').as_uri()}\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(conf))
    return Machine(tmp_path)
