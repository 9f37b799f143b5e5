"""The cold and the warm start of the quickstart, on the simulated provider."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brickyard.cli.quickstart import _Quickstart, _show_starts
from brickyard.cli.warmpool import NODES, NotShown, WarmPool
from brickyard.config.settings import Settings
from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import Knobs, SimulatedProvider
from tests.support.golden import Golden
from tests.support.server import Server

RUNTIME, TYPE = "17.3.x-scala2.13", "i3.xlarge"


def test_a_cold_start_and_then_a_warm_one(tmp_path: Path, golden: Golden) -> None:
    machines = SimulatedProvider(node_types=cloud_types(), knobs=Knobs(start_s=1.0))
    said: list[str] = []
    with Server.running(tmp_path / "workspace", instances=machines, provider="simulated") as server:
        w = server.client()
        first = WarmPool(w, runtime=RUNTIME, node_type=TYPE, say=said.append).show()
        assert first.cold_s is not None
        assert first.cold_s >= 1.0
        assert first.warm_s > 0
        golden(first.remark, f"{NODES} of {NODES} ")
        assert not list(w.clusters.list()), "both clusters are gone"
        again = WarmPool(w, runtime=RUNTIME, node_type=TYPE, say=said.append).show()
        assert again.cold_s is None, "the pool is there, and warm"
        assert len(list(w.instance_pools.list())) == 1


def test_without_room_it_says_why_and_leaves_nothing(tmp_path: Path, golden: Golden) -> None:
    machines = SimulatedProvider(node_types=cloud_types(), knobs=Knobs(max_instances=1))
    with Server.running(tmp_path / "workspace", instances=machines, provider="simulated") as server:
        w = server.client()
        shown = WarmPool(w, runtime=RUNTIME, node_type=TYPE, say=lambda text: None)
        with golden.refused(NotShown):
            shown.show()
        shown.take_back()
        assert not list(w.instance_pools.list())
        assert not list(w.clusters.list())


def test_the_phase_of_the_quickstart(tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    machines = SimulatedProvider(node_types=cloud_types(), knobs=Knobs(start_s=0.3))
    with Server.running(tmp_path / "workspace", instances=machines, provider="simulated") as server:
        quickstart = _Quickstart(Settings(data_dir=tmp_path / "workspace"), RUNTIME, any_port=False, pool=True)
        starts = quickstart._pool(server.client(), runtime=RUNTIME, node_type=TYPE)
        assert starts is not None
        _show_starts(starts)
        machines.knobs.max_instances = 0
        assert quickstart._pool(server.client(), runtime=RUNTIME, node_type="i3.2xlarge") is None
    shown = capsys.readouterr()
    text = shown.out + shown.err
    for start in ("cold: ", "warm: "):
        (row,) = [line for line in text.splitlines() if start in line]
        golden(re.sub(r"[\d.]+", "", row).strip(" │|"))
    golden.line(text, "a warm start ")
