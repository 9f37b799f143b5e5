"""SIGTERM as a notice: a worker works on while it hands over what it has, until a server lets it go or the time is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from brickyard.domain.node import Phase, Role
from tests.agent.world import Instance, World, living, world


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def worker(here: World, *, notice_s: float, role: Role = Role.WORKER) -> Instance:
    made = here.instance(notice_s=notice_s).start()
    here.ready(made, role=role, master_url="spark://127.0.0.1:7077", driver_host="127.0.0.1")
    return made


def test_a_worker_retires_and_ends_when_the_server_lets_it_go(here: World) -> None:
    made = worker(here, notice_s=600)
    os.kill(made.pid, signal.SIGTERM)
    told = here.server.status(made.id, lambda status: status.leaving)
    assert told.phase is Phase.READY
    here.server.assign(made.id, msgspec.structs.replace(here.server.assignments[made.id], version=2, retiring=True))
    assert here.server.phase(made.id, Phase.RETIRED).leaving
    assert living(made.pid)
    here.server.forget()
    assert made.wait() == 0


def test_the_time_is_over(here: World) -> None:
    made = worker(here, notice_s=0.5)
    os.kill(made.pid, signal.SIGTERM)
    here.server.status(made.id, lambda status: status.leaving)
    assert made.wait() == 0


def test_a_second_signal_ends_it(here: World) -> None:
    made = worker(here, notice_s=600)
    os.kill(made.pid, signal.SIGTERM)
    here.server.status(made.id, lambda status: status.leaving)
    os.kill(made.pid, signal.SIGTERM)
    assert made.wait() == 0


def test_an_engine_that_ends_the_instance_itself_only_tells(here: World) -> None:
    made = worker(here, notice_s=0)
    for _ in range(2):
        os.kill(made.pid, signal.SIGUSR1)
        assert here.server.status(made.id, lambda status: status.leaving).phase is Phase.READY
    here.server.assign(made.id, msgspec.structs.replace(here.server.assignments[made.id], version=2, retiring=True))
    assert here.server.phase(made.id, Phase.RETIRED).leaving
    assert living(made.pid)
    here.server.forget()
    assert made.wait() == 0


def test_a_driver_goes_on_until_its_engine_ends_it(here: World) -> None:
    made = worker(here, notice_s=0, role=Role.SINGLE)
    os.kill(made.pid, signal.SIGUSR1)
    os.kill(made.pid, signal.SIGTERM)
    assert made.wait() == 0
    assert not any(report.status.leaving for report in here.server.reports)


def test_a_driver_has_nobody_to_hand_over_to(here: World) -> None:
    made = worker(here, notice_s=600, role=Role.SINGLE)
    os.kill(made.pid, signal.SIGTERM)
    assert made.wait() == 0
    assert not any(report.status.leaving for report in here.server.reports)
