"""What `brickyard status` draws, on terminals of any width."""

from __future__ import annotations

import re

import pytest

from brickyard.cli.status import draw_clusters

CLUSTER = {
    "cluster_id": "0101-000000-testtest", "cluster_name": "my-cluster", "state": "TERMINATED", "nodes": 0, "cores": 0,
    "memory_mb": 0, "state_message": "Termination requested by admin@brickyard.local\nand more",
}  # fmt: skip


@pytest.mark.parametrize("columns", [80, 140])
def test_names_and_messages_stay_whole(columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("TERM", "xterm")
    draw_clusters([CLUSTER])
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "my-cluster" in drawn
    assert "Termination requested by admin@brickyard.local" in drawn
    assert ("│ Termination" in drawn) == (columns > 80), "with few columns it has a line of its own"
    assert max(map(len, drawn.splitlines())) <= columns
