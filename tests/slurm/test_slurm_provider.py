"""The provider's decisions, without Slurm: what is recorded, listed, repeated and given up."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from brickyard.providers.base import (
    CapacityError,
    InvalidError,
    LaunchRequest,
    QuotaError,
    SetupError,
    ThrottledError,
    TransientError,
)
from brickyard.providers.slurm import SlurmProvider
from brickyard.providers.slurm.commands import Commands
from brickyard.providers.slurm.jobs import job_name
from brickyard.providers.slurm.provider import LAUNCH_S, last_line
from brickyard.providers.slurm.rest import Rest
from brickyard.providers.slurm.section import SlurmSection, read_section
from brickyard.testing.contract import Bench, ProviderContract
from tests.slurm.fakes import Controller, commands, slurmrestd
from tests.slurm.opening import setup
from tests.slurm.shapes import ASK, NAME, NEW_JOB, NEW_PARTITIONS, NODES
from tests.support.golden import Golden


class World:
    """Servers of one workspace, and their Slurm."""

    def __init__(self, tmp_path: Path) -> None:
        self.controller = Controller()
        self.setup = setup(tmp_path)
        self.root = tmp_path / "data" / "slurm"
        self.provider = self.server()

    def server(self) -> SlurmProvider:
        section = read_section(self.setup)
        return SlurmProvider(setup=self.setup, section=section, client=self.controller, python="python3", environ={})

    def request(self, instance_id: str = "i-1") -> LaunchRequest:
        return LaunchRequest(
            instance_id=instance_id, node_type=self.provider.node_types()[0], server_url="https://server",
            agent_token="agent-secret", server_token="server-secret",
        )  # fmt: skip

    def launch(self, instance_id: str = "i-1") -> None:
        self.provider.launch(self.request(instance_id))

    def listed(self) -> dict[str, tuple[bool, str]]:
        return {name: (seen.alive, seen.message) for name, seen in self.provider.observe().items()}

    def ended(self) -> str:
        """What is said of the only one that there is, which has ended."""
        ((name, (alive, message)),) = self.listed().items()
        assert (name, alive) == ("i-1", False)
        return message


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class TestInMemory(ProviderContract):
    @pytest.fixture
    def bench(self, world: World) -> Iterator[Bench]:
        def refuse(error: CapacityError | QuotaError | ThrottledError) -> LaunchRequest:
            world.controller.refuse = error
            return world.request(f"i-refused-{type(error).__name__}")

        bench = Bench(world.provider, reopen=world.server)
        bench.refusals = {
            CapacityError: lambda: refuse(CapacityError("full", asked="4 CPUs", left="none")),
            QuotaError: lambda: refuse(QuotaError("your limit")),
        }
        yield bench
        world.controller.refuse = None


def test_the_document_is_for_its_user_alone(world: World) -> None:
    world.launch()
    directory = world.root / "i-1"
    assert {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}["unit.json"] == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700
    (ask,) = world.controller.asked
    assert ask.name == job_name(world.setup.workspace_id, "i-1")
    assert (ask.cpus, ask.memory_mb, ask.partition, ask.limit_minutes) == (4, 0, "main", -1)
    assert b"agent-secret" in (directory / "unit.json").read_bytes()
    assert b"-secret" not in msgspec.json.encode(ask)


def test_a_throttled_launch_is_repeated_with_the_same_document(world: World) -> None:
    world.controller.refuse = ThrottledError("slowly")
    with pytest.raises(ThrottledError):
        world.launch()
    document = (world.root / "i-1" / "unit.json").read_bytes()
    assert world.listed() == {}  # not accepted yet
    world.controller.refuse = None
    world.launch()
    assert (world.root / "i-1" / "unit.json").read_bytes() == document
    assert len(world.controller.asked) == 1


def test_jobs_of_others_are_not_ours(world: World) -> None:
    world.launch()
    other = job_name("9999999999999999", "i-2")
    world.controller.known[99] = msgspec.structs.replace(world.controller.known[1], job_id=99, name=other)
    assert set(world.listed()) == {"i-1"}
    world.provider.terminate("i-2", reason="not ours")
    assert world.controller.known[99].state == "PENDING"


def test_a_launch_during_the_look_is_not_taken_for_a_loss(world: World) -> None:
    """The directories are read, then the jobs; the job comes after that, and its record before anything else is looked at."""
    world.launch("i-0")
    (world.root / "i-0" / "job").unlink()
    world.controller.known.clear()
    world.controller.before_jobs = lambda: world.launch("i-0")
    world.controller.asked.clear()
    assert world.listed()["i-0"][0]


def test_a_job_that_slurm_has_forgotten(world: World, golden: Golden) -> None:
    world.launch()
    world.controller.set(1, "FAILED", exit_code=78)
    why = "the storage is not mounted"
    (world.root / "i-1" / "output").write_text(f"{why}\n")
    golden(world.ended(), why)
    world.controller.forget()
    golden(world.ended(), why)
    world.provider.terminate("i-1", reason="it has ended")
    assert world.listed() == {}


def test_what_a_killed_server_left_is_listed_after_a_while(world: World, golden: Golden) -> None:
    world.controller.refuse = ThrottledError("slowly")
    with pytest.raises(ThrottledError):
        world.launch()
    assert world.listed() == {}
    past = (world.root / "i-1").stat().st_mtime - LAUNCH_S - 1
    os.utime(world.root / "i-1", (past, past))
    golden(world.ended())
    world.provider.terminate("i-1", reason="nobody wants it")
    assert [path.name for path in world.root.iterdir()] == [".kinds.json"]


def test_a_document_that_was_taken_is_not_launched_again(world: World, golden: Golden) -> None:
    """The server was killed before it recorded the job, and Slurm has forgotten that since."""
    world.launch()
    (world.root / "i-1" / "job").unlink()
    (world.root / "i-1" / "unit.json").unlink()
    world.controller.known.clear()
    world.server().launch(world.request())
    assert len(world.controller.asked) == 1
    golden(world.ended())


def test_two_servers_launch_at_once(world: World) -> None:
    servers = [world.server() for _ in range(6)]
    ready = threading.Barrier(len(servers))
    request = world.request()

    def launch(server: SlurmProvider) -> None:
        ready.wait()
        server.launch(request)

    threads = [threading.Thread(target=launch, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(world.listed()) == {"i-1"}
    assert [path.name for path in world.root.iterdir() if path.name != ".kinds.json"] == ["i-1"]  # no draft is left
    world.provider.terminate("i-1", reason="all of its jobs")
    assert all(job.ended for job in world.controller.known.values())


def test_a_controller_that_is_away(world: World, golden: Golden) -> None:
    world.launch()
    types = world.provider.node_types()
    world.controller.away = True
    for call in (world.provider.observe, lambda: world.provider.terminate("i-1", reason="x")):
        with golden.refused(TransientError):
            call()
    with pytest.raises(TransientError):
        world.launch("i-2")
    assert world.provider.node_types() == types
    assert world.server().node_types() == types  # what the last server was told
    (world.root / ".kinds.json").unlink()
    assert world.server().node_types() == ()


def test_a_type_that_vanished(world: World, golden: Golden) -> None:
    gone = msgspec.structs.replace(
        world.request(), node_type=msgspec.structs.replace(world.request().node_type, node_type_id="x")
    )
    with golden.refused(InvalidError):
        world.provider.launch(gone)
    assert world.listed() == {}


@pytest.mark.parametrize("name", ["../x", "", "a" * 80, "i_1"])
def test_a_name_that_leads_elsewhere(world: World, name: str) -> None:
    with pytest.raises(InvalidError):
        world.launch(name)
    world.provider.terminate(name, reason="an unknown one")


def test_the_last_line_of_a_job(tmp_path: Path) -> None:
    output = tmp_path / "output"
    assert last_line(output) == ""
    output.write_bytes(b"x" * 5000 + b"\n\xffwhy\n\nslurmstepd: error: *** JOB 5 ON n1 CANCELLED ***\n")
    assert last_line(output).endswith("why")


# ── the commands ──


def ways(tmp_path: Path, *, timeout_s: float = 20.0, **scripts: str) -> Commands:
    section = SlurmSection(bin_dir=str(commands(tmp_path / "bin", **scripts)), call_timeout_s=timeout_s)
    return Commands(section, {"PATH": "/usr/bin:/bin", "SBATCH_PARTITION": "other", "SLURM_CONF": "/etc/c", "SQUEUE_SORT": "x"})


def test_commands_that_are_missing(tmp_path: Path, golden: Golden) -> None:
    with golden.refused(SetupError, "bin_dir", "slurm.rest_url"):
        Commands(SlurmSection(bin_dir=str(tmp_path)), {})


def test_a_command_that_hangs_is_given_up(tmp_path: Path, golden: Golden) -> None:
    slow = ways(tmp_path, timeout_s=0.2, squeue="exec sleep 60", sbatch="exec sleep 60")
    with golden.refused(TransientError):
        slow.jobs()
    with golden.refused(TransientError):
        slow.submit(ASK)


def test_an_error_of_squeue_is_no_empty_list(tmp_path: Path, golden: Golden) -> None:
    away = ways(tmp_path, squeue="echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1")
    with golden.refused(TransientError):
        away.jobs()


def test_the_servers_variables_do_not_change_the_commands(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    told = ways(tmp_path, squeue=f"env >>{seen}", sbatch=f"env >>{seen}; cat >>{seen}; echo 'site: hello'; echo '17;cluster'")
    told.jobs()
    assert told.submit(ASK) == 17
    text = seen.read_text()
    assert "SLURM_CONF=/etc/c" in text and "#!/bin/sh" in text
    assert "SBATCH_" not in text and "SQUEUE_" not in text


def test_jobs_that_cannot_be_cancelled_because_they_have_ended(tmp_path: Path) -> None:
    ways(tmp_path, scancel="echo 'scancel: error: Kill job error on job id 5: Invalid job id specified' >&2; exit 1").cancel([5])


# ── slurmrestd ──


@pytest.fixture
def socket() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bk-") as place:  # short: it is the path of a socket
        yield Path(place) / "s"


PATHS: dict[str, dict[str, object]] = {
    "paths": {f"/slurm/v0.0.{version}/{path}": {} for version in (39, 40, 99) for path in ("job/submit", "jobs/")}
}


def test_the_newest_version_that_both_know(socket: Path) -> None:
    asked: list[str] = []

    def answers(method: str, path: str, body: bytes) -> tuple[int, object]:
        asked.append(f"{method} {path}")
        if path == "/openapi/v3":
            return 200, PATHS
        if path.endswith("job/submit"):
            assert msgspec.json.decode(body)["job"]["name"] == NAME
            return 200, {"job_id": 8, "errors": []}
        if path.endswith("jobs/"):
            return 200, {"jobs": [NEW_JOB | {"user_id": os.geteuid()}], "errors": []}
        return 200, {"nodes": NODES, "partitions": NEW_PARTITIONS, "errors": []}

    with slurmrestd(socket, answers) as url:
        rest = Rest(SlurmSection(rest_url=url))
        assert rest.submit(ASK) == 8
        assert [job.name for job in rest.jobs()] == [NAME]
        assert rest.kinds()[0].gpus == (4, "a100")
    assert asked == [
        "GET /openapi/v3", "POST /slurm/v0.0.40/job/submit", "GET /slurm/v0.0.40/jobs/", "GET /slurm/v0.0.40/nodes/",
        "GET /slurm/v0.0.40/partitions/",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "told", "kind"),
    [
        (200, {"errors": [{"error_number": 2014, "error": "Requested node configuration is not available"}]}, InvalidError),
        (500, {"errors": [{"error_number": 2066, "description": "Invalid qos specification"}]}, QuotaError),
        (500, {"errors": [{"error_number": 1800, "error": "Unable to contact slurm controller"}]}, TransientError),
        (500, {"errors": [{"error_number": -1, "error": "Unspecified error"}]}, TransientError),
        (500, {"errors": [{"error": "Unspecified error"}], "job_submit_user_msg": "name a project"}, InvalidError),
        (401, b"Authentication failure", TransientError),
        (429, b"", ThrottledError),
        (200, b"<html>", TransientError),
    ],
)
def test_refusals_of_slurmrestd(socket: Path, status: int, told: object, kind: type[Exception]) -> None:
    with slurmrestd(socket, lambda _, path, __: (200, PATHS) if path == "/openapi/v3" else (status, told)) as url:
        with pytest.raises(kind) as raised:
            Rest(SlurmSection(rest_url=url)).submit(ASK)
        assert type(raised.value) is kind
        with pytest.raises((TransientError, ThrottledError)):
            Rest(SlurmSection(rest_url=url)).jobs()


def test_a_slurmrestd_that_hangs_or_is_away(socket: Path, golden: Golden) -> None:
    rest = Rest(SlurmSection(rest_url=f"unix:{socket}", call_timeout_s=0.2))
    with golden.refused(TransientError, socket=str(socket)):
        rest.jobs()
    going = threading.Event()
    with slurmrestd(socket, lambda *_: (200, {}) if going.wait(60) else (500, {})):
        with golden.refused(TransientError, socket=str(socket)):
            rest.jobs()
        going.set()


def test_a_job_that_is_taken_and_waits_has_a_number_beside_an_error(socket: Path) -> None:
    told = {"job_id": 11, "errors": [{"error_code": 2015, "error": "Requested partition configuration not available now"}]}
    with slurmrestd(socket, lambda _, path, __: (200, PATHS) if path == "/openapi/v3" else (200, told)) as url:
        assert Rest(SlurmSection(rest_url=url)).submit(ASK) == 11
