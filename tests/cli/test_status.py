"""What `brickyard status` draws, on terminals of any width."""

from __future__ import annotations

import re
from typing import Any

import pytest

from brickyard.cli.status import (
    POOL_COUNTS,
    _here,
    _isolation,
    _network,
    _pool_table,
    _provider,
    _provider_lines,
    draw_clusters,
)
from brickyard.config.settings import Settings
from brickyard.sandbox.probe import network_text
from tests.support.golden import Golden

CLUSTER = {
    "cluster_id": "0101-000000-testtest", "cluster_name": "my-cluster", "state": "TERMINATED", "nodes": 0, "cores": 0,
    "memory_mb": 0, "state_message": "Termination requested by admin@brickyard.local\nand more",
}  # fmt: skip
POOL: dict[str, Any] = {
    "instance_pool_id": "0101-000000-pool", "node_type_id": "i3.xlarge", "preloaded_spark_versions": [], "max_capacity": None,
    **{f"{name}_count": 0 for name in POOL_COUNTS},
}  # fmt: skip


def test_what_the_server_has_found_is_not_looked_for_again(golden: Golden) -> None:
    about = {"provider": "local", "isolation": "auto", "isolation_found": "namespaces", "network_found": "isolated"}
    here = Settings(isolation="off", network="shared")
    looked = _here.cache_info().misses
    assert (_isolation(about, here), _network(about, here)) == ("namespaces", "isolated"), "the server's settings count"
    golden(_network({**about, "isolation": "off"}, here))
    assert _network({"provider": "simulated"}, here) == _isolation({"provider": "simulated"}, here)
    assert _here.cache_info().misses == looked


@pytest.mark.parametrize(
    ("found", "network", "internet", "text"),
    [
        ("isolated", "auto", True, "isolated"),
        ("isolated", "auto", False, "isolated, without the internet"),
        ("shared: no veth", "auto", False, "shared: no veth"),
        ("isolated", "shared", True, "shared: the settings say so"),
    ],
)
def test_the_network_is_named_with_the_settings(found: str, network: str, internet: bool, text: str) -> None:
    assert network_text(found, network=network, internet=internet) == text


@pytest.mark.parametrize("columns", [80, 140])
def test_names_and_messages_stay_whole(columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("TERM", "xterm")
    draw_clusters([CLUSTER])
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "my-cluster" in drawn
    assert str(CLUSTER["state_message"]).splitlines()[0] in drawn
    assert ("│ Termination" in drawn) == (columns > 80), "with few columns it has a line of its own"
    assert max(map(len, drawn.splitlines())) <= columns


@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_is_not_told_what_to_do(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    hostile = "a\x1b]0;b\x07\x1b[31mc\r\u202ed\ne\x9b2J"
    draw_clusters([{**CLUSTER, "cluster_name": hostile, "state_message": hostile}])
    _pool_table([{**POOL, "instance_pool_name": hostile, "message": hostile}])
    drawn = re.sub(r"\x1b\[[13]?m|\x1b\[0m", "", capsys.readouterr().out)
    assert "a?]0;b??[31mc" in drawn.replace("│", "").replace(" ", "")
    assert all(character.isprintable() or character == "\n" for character in drawn)


def test_a_provider_elsewhere_that_does_not_answer(golden: Golden) -> None:
    view = {
        "name": "ray", "where": "elsewhere", "configured": True, "node_types": 3, "hidden_node_types": [], "nodes": 3,
        "room": None, "trouble": "no head answers",
    }  # fmt: skip
    nodes = [{"provider": "ray", "isolation": kind} for kind in ("namespaces", "namespaces", "none: no namespaces", "")]
    trouble, isolation = _provider_lines(_provider(view, nodes), alone=True)
    golden(trouble, "ray", "no head answers")
    golden(isolation, "ray", "namespaces (2)", "none: no namespaces (1)")
