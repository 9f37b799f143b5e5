"""What is lost on a real Slurm, and what becomes of instances then: nothing doubled, nothing left that nobody knows of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from brickyard.providers.base import Observed, TransientError
from brickyard.providers.slurm import SlurmProvider
from brickyard.providers.slurm.jobs import Ask, Client, Job, Kind, job_name
from tests.agent.world import FakeServer
from tests.slurm.opening import client, opened, request, setup
from tests.slurm.processes import agents_of
from tests.support.patience import until
from tests.support.slurm import NODES, Slurm

pytestmark = pytest.mark.extended

TYPES = [
    {"node_type_id": "one", "num_cores": 1, "memory_mb": 512},
    {"node_type_id": "timed", "num_cores": 1, "memory_mb": 512, "engine": {"time_limit": "30", "partition": "short"}},
    {"node_type_id": "long", "num_cores": 1, "memory_mb": 512, "engine": {"time_limit": "1:00:00", "partition": "short"}},
    {"node_type_id": "whole", "num_cores": 4, "memory_mb": 512},
    {"node_type_id": "gpu", "num_cores": 1, "memory_mb": 512, "num_gpus": 1, "gpu_model": "fake"},
    {"node_type_id": "down", "num_cores": 1, "memory_mb": 512, "engine": {"partition": "down"}},
]


class Place:
    """A server's provider on a real Slurm, and the server that its agents call."""

    def __init__(self, slurm: Slurm, tmp_path: Path, server: FakeServer) -> None:
        self.slurm = slurm
        self.server = server
        self.directory = tmp_path
        self.setup = setup(tmp_path, server.url, node_types=TYPES)
        self.provider = opened(slurm, self.setup)
        self.launched: list[str] = []

    def launch(self, instance_id: str, node_type_id: str = "one", over: SlurmProvider | None = None) -> None:
        self.launched.append(instance_id)
        provider = over or self.provider
        provider.launch(request(provider, instance_id, node_type_id, server_url=self.server.url))

    def running(self, instance_id: str, node_type_id: str = "one") -> psutil.Process:
        """Launches it; its agent, once that has called."""
        self.launch(instance_id, node_type_id)
        self.registered(instance_id)
        (agent,) = self.agents(instance_id)
        return agent

    def registered(self, instance_id: str) -> None:
        until(lambda: any(each.instance_id == instance_id for each in self.server.reports), f"{instance_id} calls home")

    def agents(self, instance_id: str) -> list[psutil.Process]:
        return agents_of(self.directory, instance_id)

    def seen(self, instance_id: str) -> Observed:
        return self.provider.observe()[instance_id]

    def ended(self, instance_id: str) -> str:
        """Waits until it is listed as ended; the message."""

        def over() -> str:
            seen = self.seen(instance_id)
            return "" if seen.alive or seen.message.endswith(" is ending") else seen.message

        return until(over, f"{instance_id} ends")

    def says(self, instance_id: str, words: str) -> Observed:
        until(lambda: words in self.seen(instance_id).message, f"{instance_id}: {words}")
        return self.seen(instance_id)

    def job(self, instance_id: str) -> int:
        (job,) = client(self.slurm, self.setup).jobs(job_name(self.setup.workspace_id, instance_id))
        return job.job_id

    def end(self) -> None:
        for instance_id in self.launched:

            def gone(each: str = instance_id) -> bool:
                self.provider.terminate(each, reason="the test is over")
                return each not in self.provider.observe()

            until(gone, f"{instance_id} is gone")
            until(lambda each=instance_id: not self.agents(each), f"the agent of {instance_id} has ended")  # type: ignore[misc] # mypy infers no type for a default
        assert [path.name for path in (self.directory / "data" / "slurm").iterdir()] == [".kinds.json"]


@pytest.fixture
def place(slurm: Slurm, tmp_path: Path) -> Iterator[Place]:
    server = FakeServer(tmp_path)
    server.start()
    made = Place(slurm, tmp_path, server)
    try:
        yield made
    finally:
        made.end()
        server.stop()
        until(lambda: slurm.idle() == len(NODES), "the nodes are idle again")


class Over(Client):
    """Another client, to change what one call does."""

    def __init__(self, real: Client) -> None:
        self.real = real
        self.submitted: list[int] = []

    def jobs(self, name: str = "") -> Sequence[Job]:
        return self.real.jobs(name)

    def submit(self, ask: Ask) -> int:
        self.submitted.append(self.real.submit(ask))
        return self.submitted[-1]

    def cancel(self, job_ids: Sequence[int]) -> None:
        self.real.cancel(job_ids)

    def kinds(self) -> Sequence[Kind]:
        return self.real.kinds()


class KilledAfterSbatch(Over):
    def submit(self, ask: Ask) -> int:
        super().submit(ask)
        raise KeyboardInterrupt


class Blind(Over):
    """Does not see the job that another server has just submitted."""

    def jobs(self, name: str = "") -> Sequence[Job]:
        return ()


def test_a_server_killed_between_sbatch_and_the_record(place: Place) -> None:
    killed = KilledAfterSbatch(client(place.slurm, place.setup))
    with pytest.raises(KeyboardInterrupt):
        place.launch("i-1", over=opened(place.slurm, place.setup, over=killed))
    assert place.provider.observe()["i-1"].alive
    place.launch("i-1")
    place.launch("i-1", over=opened(place.slurm, place.setup))
    place.registered("i-1")
    assert [place.job("i-1")] == killed.submitted


def test_two_jobs_of_an_instance_start_one_agent(place: Place) -> None:
    """The first server was killed while its sbatch waited for the controller: the second sees nothing, and submits again."""
    killed = KilledAfterSbatch(client(place.slurm, place.setup))
    with pytest.raises(KeyboardInterrupt):
        place.launch("i-1", over=opened(place.slurm, place.setup, over=killed))
    blind = Blind(client(place.slurm, place.setup))
    directory = place.directory / "data" / "slurm" / "i-1"
    with contextlib.suppress(TransientError):
        place.launch("i-1", over=opened(place.slurm, place.setup, over=blind))
    until(
        lambda: len(killed.submitted + blind.submitted) == 1 or "already started" in read(directory / "output"), "one gives way"
    )
    place.registered("i-1")
    assert len(place.agents("i-1")) == 1
    assert place.seen("i-1").alive
    assert len({report.boot_id for report in place.server.reports}) == 1


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_tokens_are_nowhere_to_be_read(place: Place) -> None:
    place.running("i-1")
    job = str(place.job("i-1"))
    for told in (
        place.slurm.says("scontrol", "write", "batch_script", job, "-"),
        place.slurm.says("scontrol", "show", "job", "-dd", job),
        place.slurm.says("squeue", "-O", "ALL"),
        *(" ".join(agent.cmdline()) for agent in place.agents("i-1")),
    ):
        assert told and "agent-secret" not in told and "server-secret" not in told
    shared = [path for path in (place.directory / "data" / "slurm").rglob("*") if path.is_file()]
    assert [path.name for path in shared if b"agent-secret" in path.read_bytes()] == []
    assert (place.directory / "data" / "slurm" / "i-1").stat().st_mode & 0o077 == 0


def test_a_requeued_job_does_not_revive_its_instance(place: Place) -> None:
    agent = place.running("i-1")
    job = str(place.job("i-1"))
    assert "Requeue=0" in place.slurm.says("scontrol", "show", "job", job)
    place.slurm.says("scontrol", "update", f"JobId={job}", "Requeue=1")  # what an operator may do
    assert place.slurm.says("scontrol", "requeue", job) == ""
    assert "back into the queue" in place.ended("i-1")
    psutil.wait_procs([agent])
    until(lambda: "JobState=PENDING" in place.slurm.says("scontrol", "show", "job", job), "it waits for its second run")
    place.slurm.says("scontrol", "update", f"JobId={job}", "StartTime=now")  # Slurm waits two minutes
    until(lambda: "COMPLETED" in place.slurm.says("scontrol", "show", "job", job), "its second run ends")
    assert "requeued" in read(place.directory / "data" / "slurm" / "i-1" / "output")
    assert len({report.boot_id for report in place.server.reports}) == 1


def test_slurmstepd_is_killed(place: Place) -> None:
    agent = place.running("i-1")
    stepd = agent.parent()
    assert stepd is not None and "slurmstepd" in stepd.name() + " ".join(stepd.cmdline())
    stepd.kill()
    psutil.wait_procs([agent])  # it is told by the kernel, and nobody else
    assert not agent.is_running()
    assert "its machine failed" in place.ended("i-1")


def test_slurmd_is_killed(place: Place) -> None:
    agent = place.running("i-1", "timed")  # on node1
    place.slurm.kill("node1")
    ended = place.ended("i-1")
    assert "on node1" in ended and "its machine failed" in ended
    assert agent.is_running()  # Slurm reaches nothing on that machine, but the server knows what is no longer an instance
    place.server.forget()
    psutil.wait_procs([agent])
    place.slurm.start("node1")


def test_the_controller_is_killed_and_started_again(place: Place) -> None:
    agent = place.running("i-1")
    place.setup.settings.sections["slurm"]["call_timeout_s"] = 2  # Slurm's commands wait for 10 s
    place.provider = opened(place.slurm, place.setup)
    place.provider.node_types()
    place.slurm.kill("slurmctld")
    for call in (
        place.provider.observe,
        lambda: place.launch("i-2"),
        lambda: place.provider.terminate("i-1", reason="nobody hears it"),
    ):
        with pytest.raises(TransientError):
            call()
    assert place.provider.node_types()  # what Slurm said last
    assert agent.is_running()
    place.slurm.start("slurmctld")

    def back() -> bool:
        with contextlib.suppress(TransientError):
            return place.provider.observe()["i-1"].alive
        return False

    until(back, "the controller is back")
    place.launch("i-2")
    place.registered("i-2")
    assert set(place.provider.observe()) == {"i-1", "i-2"}


def test_a_time_limit_is_told_and_ends_the_node_cleanly(place: Place) -> None:
    agent = place.running("i-1", "timed")
    job = f"Slurm job {place.job('i-1')}"
    seen = place.says("i-1", "time limit")
    assert seen.alive and job in seen.message
    place.slurm.says("scontrol", "update", f"JobId={place.job('i-1')}", "TimeLimit=1")
    log = next(place.directory.glob("machine/instances/*/i-1/agent.log"))
    with log.open() as told:  # the agent removes it
        psutil.wait_procs([agent])
        assert "SIGTERM" in told.read()
    assert "its time limit" in place.ended("i-1")
    assert place.says("i-1", "(1:00)")


def test_what_a_job_waits_for_is_told(place: Place) -> None:
    for number in range(3):
        place.launch(f"i-{number}", "whole")
    place.launch("i-more", "whole")
    assert place.says("i-more", "(Resources)").alive
    place.slurm.says("scontrol", "hold", str(place.job("i-more")))
    assert place.says("i-more", "operator").alive
    place.launch("i-down", "down")
    assert place.says("i-down", "(PartitionDown)").alive


def test_what_can_never_run_is_told(place: Place) -> None:
    place.launch("i-1", "long")
    assert place.ended("i-1").endswith("(PartitionTimeLimit)")


def test_an_operator_cancels(place: Place) -> None:
    agent = place.running("i-1")
    place.slurm.says("scancel", str(place.job("i-1")))
    assert "it was cancelled" in place.ended("i-1") or "its agent ended" in place.ended("i-1")
    psutil.wait_procs([agent])


def test_a_job_of_higher_priority_takes_the_machine(place: Place) -> None:
    agent = place.running("i-1", "timed")  # on node1
    urgent = place.slurm.says("sbatch", "-p", "urgent", "-w", "node1", "-c", "4", "-o", "/dev/null", "--wrap", "true")
    assert "Submitted" in urgent
    assert "(preemption)" in place.ended("i-1")
    psutil.wait_procs([agent])


def test_a_machine_that_cannot_run_an_agent_says_why(place: Place) -> None:
    (place.directory / "data" / "workspace.id").unlink()
    place.launch("i-1")
    assert f"workspace {place.setup.workspace_id} " in place.ended("i-1")
    (place.directory / "data" / "workspace.id").write_text(place.setup.workspace_id)


def test_gres_assigns_gpus(place: Place) -> None:
    """There is no driver behind the devices of this test, so the agent says what it was given and what it misses."""
    place.launch("i-1", "gpu")
    ended = place.ended("i-1")
    assert "CUDA_VISIBLE_DEVICES is '0'" in ended and "finds 0 there" in ended


def test_node_types_are_what_the_partitions_have(place: Place) -> None:
    place.setup = setup(place.directory, place.server.url, node_types=TYPES, partitions="main, short")
    found = {each.node_type_id: each for each in opened(place.slurm, place.setup).node_types()}
    assert list(found)[: len(TYPES)] == [each["node_type_id"] for each in TYPES]
    assert list(found)[len(TYPES) :] == [
        "slurm.main.4c8g", "slurm.main.2c4g.1fake", "slurm.main.4c8g.2fake", "slurm.short.4c8g",
    ]  # fmt: skip
    whole = found["slurm.main.4c8g.2fake"]
    assert (whole.num_cores, whole.memory_mb, whole.num_gpus, whole.gpu_model) == (4.0, 8192, 2, "fake")
    assert [each for each in ("4 CPUs", "8 GiB", "2 x fake", "partition main", "(fast)") if each not in whole.description] == []


def test_an_address_of_slurm(slurm: Slurm, place: Place) -> None:
    place.setup = setup(place.directory, place.server.url, node_types=TYPES, address="node")
    place.provider = opened(slurm, place.setup)
    place.running("i-1", "timed")
    assert "//127.0.0.2:" in place.server.reports[-1].endpoint
