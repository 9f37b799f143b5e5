"""A workspace whose nodes are jobs of a real Slurm: Spark across three machines, and what fails under it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from brickyard.config import Settings
from brickyard.providers.local.instances import is_locked
from tests.spark.live import Live
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4, cache_dir
from tests.support.slurm import NODES, Slurm, SlurmMissing

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

QUERY = "spark.range(0, 3_000_000, numPartitions=12).selectExpr('id % 7 as k').groupBy('k').count().agg({'count': 'sum'})"
SUM = f"print({QUERY}.first()[0])"
MACHINE = {"node_type_id": "machine", "num_cores": 4, "memory_mb": 2048}  # all CPUs of one


class SlurmLive(Live):
    """A workspace on Slurm."""

    def __init__(self, data: Path, slurm: Slurm) -> None:
        super().__init__(data)
        self.slurm = slurm
        self.machine = data.parent / "machine"
        section = {
            "machine_dir": str(self.machine), "machine_cache_dir": str(cache_dir()), "address": "node", "node_types": [MACHINE],
        }  # fmt: skip
        self.settings = Settings(
            data_dir=data, cache_dir=cache_dir(), port=0, provider="slurm", public_url=f"https://127.0.0.1:{free_port()}",
            sections={"slurm": section},
        )  # fmt: skip

    def hosts(self, cluster_id: str) -> list[str]:
        """The addresses of a cluster's nodes, the driver's first."""
        cluster = self.get(cluster_id)
        assert cluster.driver is not None
        return [str(each.private_ip) for each in [cluster.driver, *(cluster.executors or [])]]

    def instances(self) -> set[str]:
        """Those whose agent lives on one of the machines."""
        return {path.parent.name for path in self.machine.glob("instances/*/*/agent.lock") if is_locked(path.parent)}

    def told(self) -> set[str]:
        """Those that the clusters have."""
        clusters = [self.get(str(each.cluster_id)) for each in self.w.clusters.list()]
        nodes = [node for each in clusters for node in [each.driver, *(each.executors or [])] if node is not None]
        return {str(node.instance_id) for node in nodes}

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
            made = SlurmLive(tmp_path_factory.mktemp("slurm") / "workspace", slurm)
            made.start()
            try:
                yield made
            finally:
                try:
                    for each in made.w.clusters.list():
                        made.w.clusters.permanent_delete(str(each.cluster_id))
                    until(lambda: not made.instances() and slurm.idle() == len(NODES), "no agent and no job is left")
                finally:
                    made.close()
    except SlurmMissing as missing:
        pytest.skip(str(missing))


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
