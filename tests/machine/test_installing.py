"""What to type to add a package, by how Brickyard was installed."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from brickyard.machine import installing

WANTED = "lightkube>=1.0,<2"


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment, installed from a wheel that is still there."""
    made = tmp_path / "brickyard"
    made.mkdir()
    monkeypatch.setattr(sys, "prefix", str(made))
    wheel = tmp_path / "brickyard-1-py3-none-any.whl"
    wheel.touch()
    installed_from(tmp_path, wheel.as_uri(), monkeypatch)
    return made


def installed_from(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    info = folder / "brickyard-1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "direct_url.json").write_text(json.dumps({"url": url, "archive_info": {}}))
    monkeypatch.setattr(installing, "distribution", lambda _name: metadata.PathDistribution(info))


def receipt(prefix: Path, requirements: str) -> None:
    (prefix / "uv-receipt.toml").write_text(f"[tool]\nrequirements = {requirements}\n")


def test_an_environment_of_pip() -> None:
    words = shlex.split(installing.command(WANTED))
    assert (words[-1], "pip" in words, "tool" in words) == (WANTED, True, False)


def test_a_tool_of_pipx(prefix: Path) -> None:
    (prefix / "pipx_metadata.json").write_text("{}")
    assert shlex.split(installing.command(WANTED)) == ["pipx", "inject", "brickyard", WANTED]


def test_a_tool_of_uv_keeps_what_was_added_before(prefix: Path) -> None:
    wheel = prefix.parent / "brickyard-1-py3-none-any.whl"
    receipt(
        prefix, f'[{{ name = "brickyard", path = "{wheel}" }}, {{ name = "ray", extras = ["default"], specifier = ">=2.60" }}]'
    )
    assert shlex.split(installing.command(WANTED)) == [
        "uv", "tool", "install", "--with", "ray[default]>=2.60", "--with", WANTED, str(wheel),
    ]  # fmt: skip
    receipt(prefix, f'[{{ name = "brickyard", extras = ["jupyter"], path = "{wheel}" }}]')
    assert shlex.split(installing.command(WANTED))[-1] == f"brickyard[jupyter] @ {wheel.as_uri()}"


@pytest.mark.parametrize("requirements", ['[{ name = "brickyard" }, { name = "mine", path = "/mine" }]', "{}", "[]"])
def test_a_tool_that_cannot_be_made_again_is_an_environment_like_others(prefix: Path, requirements: str) -> None:
    receipt(prefix, requirements)
    assert "tool" not in shlex.split(installing.command(WANTED))


def test_a_tool_whose_wheel_is_gone(prefix: Path) -> None:
    receipt(prefix, '[{ name = "brickyard" }]')
    (prefix.parent / "brickyard-1-py3-none-any.whl").unlink()
    assert "tool" not in shlex.split(installing.command(WANTED))


def test_this_is_a_checkout() -> None:
    assert installing.in_checkout()
