"""Runs of kept jobs, and their repairs, while servers, nodes and drivers are killed: each attempt that counts has run once.

BRICKYARD_TEST_JOB_RUNS sets how many runs there are; `./dev bench jobkills` makes a thousand.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

import pytest

from tests.replicas.jobkills import LocalNodes, SimulatedNodes, left_behind, storm
from tests.replicas.servers import Replicas
from tests.support.postgres import Postgres
from tests.support.runtimes import cache_dir

RUNS = int(os.environ.get("BRICKYARD_TEST_JOB_RUNS", "60"))
SEED = int(os.environ.get("BRICKYARD_TEST_JOB_SEED", "0")) or secrets.randbelow(10**9)


@pytest.mark.extended
@pytest.mark.timeout(3_600)
def test_each_attempt_that_counts_has_run_once(tmp_path: Path, postgres: Postgres) -> None:
    print(f"BRICKYARD_TEST_JOB_SEED={SEED}")
    nodes = SimulatedNodes(tmp_path)
    settings = {"provider": "simulated", "simulated_knobs": nodes.knobs}
    with Replicas.running(tmp_path, postgres.new_database(), count=3, **settings) as replicas:
        tally = asyncio.run(storm(replicas, nodes, runs=RUNS, at_once=16, clusters=2, seed=SEED, pauses_s=(0.5, 3.0)))
    assert not tally.problems
    assert tally.kills["server"] and tally.repairs and tally.children and tally.ticks and tally.attempts["FAILED"], vars(tally)
    assert not left_behind(tmp_path)


@pytest.mark.spark
@pytest.mark.extended
@pytest.mark.timeout(3_600)
def test_each_attempt_on_real_drivers_has_run_once(tmp_path: Path, postgres: Postgres) -> None:
    print(f"BRICKYARD_TEST_JOB_SEED={SEED}")
    nodes = LocalNodes(tmp_path)
    with Replicas.running(tmp_path, postgres.new_database(), count=2, cache_dir=cache_dir()) as replicas:
        tally = asyncio.run(storm(replicas, nodes, runs=RUNS // 5, at_once=4, clusters=1, seed=SEED, pauses_s=(8.0, 30.0)))
    assert not tally.problems
    assert tally.kills["server"] and tally.attempts["SUCCESS"], vars(tally)
    assert not left_behind(tmp_path)
