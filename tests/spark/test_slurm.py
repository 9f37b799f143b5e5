"""A workspace whose nodes are jobs of a real Slurm: Spark across three machines, and what fails under it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from tests.spark.engines import SUM, EngineLive
from tests.support.driver import DRIVER
from tests.support.patience import until
from tests.support.runtimes import SPARK_4
from tests.support.slurm import NODES, Slurm, SlurmMissing

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

MACHINE = {"node_type_id": "machine", "num_cores": 4, "memory_mb": 2048}  # all CPUs of one
FIRST = {"node_type_id": "first", "num_cores": 1, "memory_mb": 2048, "engine": {"partition": "short"}}  # on the first


class SlurmLive(EngineLive):
    """A workspace on Slurm. Every machine has a driver's library; Slurm has GPUs on the third."""

    def __init__(self, place: Path, slurm: Slurm) -> None:
        self.slurm = slurm
        section = {"address": "node", "node_types": [MACHINE, FIRST], "prelude": f"export PYTHONPATH={DRIVER}:$PYTHONPATH"}
        super().__init__(place / "workspace", "slurm", section)

    def jobs(self) -> set[str]:
        """The instances whose jobs run."""
        names = self.slurm.says("squeue", "--noheader", "--states=running", "--Format=Name:100").split()
        return {name.removeprefix(self.prefix) for name in names}

    @property
    def prefix(self) -> str:
        """Of its jobs' names."""
        return f"brickyard-{(self.data / 'workspace.id').read_text().strip()}-"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLive]:
    try:
        with Slurm.running() as slurm, pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", slurm.environ["SLURM_CONF"])
            patch.setenv("PATH", slurm.environ["PATH"])
            made = SlurmLive(tmp_path_factory.mktemp("slurm"), slurm)
            with made.running():
                yield made
            until(lambda: slurm.idle() == len(NODES), "no job is left")
    except SlurmMissing as missing:
        pytest.skip(str(missing))


def test_each_worker_has_the_gpu_that_slurm_gave_it(live: SlurmLive) -> None:
    """Its machines are whole nodes afterwards, so it comes first."""
    assert (live.gpus_of("slurm.main.4c8g.2fake"), live.gpus_of("slurm.main.2c4g.1fake")) == (2, 1)
    assert live.check_gpus("slurm.main.2c4g.1fake", driver="first") == ["127.0.0.2", "127.0.0.4", "127.0.0.4"]


@pytest.fixture(scope="module")
def cluster(live: SlurmLive) -> str:
    return live.create("three", SPARK_4, node_type="machine", num_workers=2)


def test_a_query_runs_across_three_machines(live: SlurmLive, cluster: str) -> None:
    live.wait(cluster, State.RUNNING, workers=2)
    assert sorted(live.hosts(cluster)) == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    assert live.run(cluster, SUM).strip() == "3000000"
    assert live.jobs() == live.instances() == live.told()


def test_a_controller_that_fails_harms_no_cluster(live: SlurmLive, cluster: str) -> None:
    before = live.instances()
    live.slurm.kill("slurmctld")
    assert live.run(cluster, SUM).strip() == "3000000"
    live.slurm.start("slurmctld")
    until(lambda: live.jobs() == before, "the controller knows its jobs")
    assert live.instances() == live.told() == before


def test_a_machine_that_fails_is_replaced(live: SlurmLive, cluster: str) -> None:
    driver, worker, _ = live.hosts(cluster)
    node = NODES[int(worker.rpartition(".")[2]) - 2]
    before = live.instances()
    live.slurm.kill(node)
    until(lambda: "NODES_LOST" in live.events(cluster), "the cluster is told")
    until(lambda: len(live.instances() & before) == 2, "the agent that Slurm no longer knows ends itself")
    live.slurm.start(node)

    def replaced() -> bool:
        return live.get(cluster).state is State.RUNNING and len(live.hosts(cluster)) == 3 and live.instances() == live.told()

    until(replaced, "another job takes its place")
    assert live.hosts(cluster)[0] == driver
    assert live.run(cluster, SUM).strip() == "3000000"
    assert live.jobs() == live.told()


def test_a_job_that_an_operator_cancels_is_a_lost_node(live: SlurmLive, cluster: str) -> None:
    cancelled = str(live.get(cluster).executors[0].instance_id)  # type: ignore[index] # it has two workers
    job = live.slurm.says("squeue", "--noheader", f"--name={live.prefix}{cancelled}", "--Format=JobID")
    live.slurm.says("scancel", job.strip())
    until(lambda: cancelled not in live.told() and len(live.told()) == 3, "another job takes its place")
    live.wait(cluster, State.RUNNING, workers=2)
    assert live.run(cluster, SUM).strip() == "3000000"
