"""What Slurm says, and what becomes of it: parsing, messages, errors, node types. Nothing runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.providers.base import (
    CapacityError,
    InvalidError,
    ProviderError,
    QuotaError,
    SetupError,
    ThrottledError,
    TransientError,
)
from brickyard.providers.slurm import kinds, words
from brickyard.providers.slurm.commands import options, parse_jobs, parse_kinds
from brickyard.providers.slurm.jobs import UNLIMITED, Job, Kind, minutes
from brickyard.providers.slurm.refusals import refusal, said
from brickyard.providers.slurm.rest import Answer, to_job, to_kinds, to_request
from brickyard.providers.slurm.script import environment
from brickyard.providers.slurm.section import SlurmSection, read_section
from tests.slurm.opening import setup
from tests.slurm.shapes import ASK, NAME, NEW_JOB, NEW_PARTITIONS, NODES, OLD_JOB, OLD_PARTITIONS
from tests.support.golden import Golden


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("30", 30), ("30:00", 30), ("0:30", 1), ("1:00:00", 60), ("1-00:00:00", 1440), ("2-12", 3600), ("1-00:30", 1470),
        ("infinite", UNLIMITED), ("UNLIMITED", UNLIMITED), ("", None), ("n/a", None),
    ],
)  # fmt: skip
def test_time_limits(text: str, found: int | None) -> None:
    assert minutes(text) == found


@pytest.mark.parametrize("text", ["tomorrow", "1:2:3:4", "-5", "0"])
def test_what_is_no_time_limit(text: str) -> None:
    with pytest.raises(ValueError):
        minutes(text)


def test_the_output_of_squeue() -> None:
    text = (
        f"12|RUNNING|0|0|1795453810|1795455010|20:00|main|node3|{NAME}|None|\n"
        "13|RUNNING|0|0|1795453810|NONE|UNLIMITED|main|node1|somebodys|None|\n"
        f"14|FAILED|0|19968|1795453810|1795455010|UNLIMITED|main|node1|{NAME}|NonZeroExitCode|\n"
        f"15|PENDING|1|0|N/A|N/A|20:00|main||{NAME}|launch failed requeued held|\n"
    )
    running, failed, waiting = parse_jobs(text)
    assert (running.job_id, running.state, running.ends_s, running.nodes) == (12, "RUNNING", 1795455010, "node3")
    assert (running.started_s, running.limit_minutes) == (1795453810, 20)
    assert (failed.exit_code, failed.signal, failed.ends_s) == (78, 0, 0)
    assert (waiting.restarts, waiting.reason, waiting.nodes) == (1, "launch failed requeued held", "")


def test_half_an_answer_is_none(golden: Golden) -> None:
    with golden.refused(TransientError):
        parse_jobs(f"12|RUNNING|0|0|1795453810|1795455010|20:00|main|node3|{NAME}|None|\n13|RUNN")


def test_the_output_of_sinfo() -> None:
    text = (
        "main*|up|infinite|64|257000|12|(null)|(null)\n"
        "gpu|up|2-00:00:00|32|515000|4|gpu:a100:4(S:0-1)|nvme,fast\n"
        "old|down|infinite|16|64000|2|(null)|(null)\n"
    )
    main, gpu = parse_kinds(text)
    assert (main.partition, main.default, main.gpus, main.limit_minutes) == ("main", True, (0, ""), UNLIMITED)
    assert (gpu.count, gpu.gpus, gpu.features, gpu.limit_minutes) == (4, (4, "a100"), "nvme,fast", 2880)


def test_a_partition_whose_time_limit_cannot_be_read_hides_no_other() -> None:
    text = "closed|up|0:00|4|8000|1|(null)|(null)\nodd|up|soon|4|8000|1|(null)|(null)\nmain*|up|infinite|4|8000|1|(null)|(null)\n"
    assert [each.partition for each in parse_kinds(text)] == ["main"]


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("", (0, "")), ("gpu:4", (4, "")), ("gpu:a100:4", (4, "a100")), ("gpu:3g.20gb:2,shard:8", (2, "3g.20gb")),
        ("gpu:a100:2(S:0),gpu:v100:2(S:1)", (4, "a100+v100")), ("nic:2", (0, "")),
    ],
)  # fmt: skip
def test_gres(gres: str, gpus: tuple[int, str]) -> None:
    assert Kind(partition="p", cpus=1, memory_mb=1, gres=gres).gpus == gpus


def offered(*found: Kind, **section: Any) -> dict[str, kinds.Offer]:
    return {each.node_type.node_type_id: each for each in kinds.offers(found, SlurmSection(**section))}


def test_a_machine_with_gpus_is_offered_whole_and_by_gpu() -> None:
    found = offered(Kind(partition="gpu", cpus=32, memory_mb=512_000, gres="gpu:a100:4(S:0-1)", limit_minutes=2880))
    assert list(found) == ["slurm.gpu.8c125g.1a100", "slurm.gpu.32c500g.4a100"]
    share, whole = found.values()
    assert (share.gres, share.memory_mb, share.node_type.num_gpus) == ("gpu:a100:1", 128_000, 1)
    assert (whole.gres, whole.memory_mb, whole.node_type.num_gpus) == ("gpu:a100:4", 0, 4)  # 0: all that there is


def test_sizes_are_distinct_and_machines_counted(golden: Golden) -> None:
    small, large = Kind(partition="p", cpus=4, memory_mb=8192, count=2), Kind(partition="p", cpus=64, memory_mb=262_144)
    fast = Kind(partition="p", cpus=4, memory_mb=8192, features="fast")
    found = offered(large, small, fast, Kind(partition="q", cpus=2, memory_mb=4096, default=True))
    assert list(found) == ["slurm.q.2c4g", "slurm.p.4c8g", "slurm.p.64c256g"]
    golden(found["slurm.p.4c8g"].node_type.description)
    assert list(offered(small, large, partitions="q")) == []


@pytest.mark.parametrize(
    ("minutes", "told"),
    [(-1, "p"), (30, "p, for at most 30 min"), (2880, "p, for at most 48 h"), (90, "p, for at most 1 h 30 min")],
)
def test_a_node_type_names_the_time_limit_of_its_partition(minutes: int, told: str) -> None:
    (offer,) = offered(Kind(partition="p", cpus=4, memory_mb=8192, limit_minutes=minutes)).values()
    assert offer.node_type.description.endswith(f"partition {told}")


def test_memory_that_slurm_was_not_told_is_not_asked_for() -> None:
    (offer,) = offered(Kind(partition="p", cpus=4, memory_mb=1)).values()
    assert (offer.memory_mb, offer.node_type.memory_mb) == (None, 8192)


def test_a_job_gets_the_longest_time_or_what_the_settings_say() -> None:
    (offer,) = offered(Kind(partition="p", cpus=4, memory_mb=8192, limit_minutes=600)).values()
    assert kinds.limit(offer, SlurmSection()) == 600
    assert kinds.limit(offer, SlurmSection(time_limit="2:00:00")) == 120


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available", InvalidError),
        ("sbatch: error: invalid partition specified: nope\n"
         "sbatch: error: Batch job submission failed: Invalid partition name specified", InvalidError),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified", QuotaError),
        ("sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or "
         "time limits)", QuotaError),
        ("sbatch: error: Batch job submission failed: Required node not available (down, drained or reserved)", CapacityError),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", ThrottledError),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", TransientError),
        ("sbatch: fatal: Could not establish a configuration source", TransientError),
        ("sbatch: error: you must name a project\nsbatch: error: Batch job submission failed: Unspecified error", InvalidError),
    ],
)  # fmt: skip
def test_refusals(text: str, kind: type[ProviderError]) -> None:
    error = refusal(said(text), asked="4 CPUs")
    assert type(error) is kind
    assert "sbatch" not in str(error) and "Unspecified" not in str(error)


def test_refusals_by_number() -> None:
    assert type(refusal("?", number=2014)) is InvalidError
    assert type(refusal("?", number=2066)) is QuotaError
    assert type(refusal("?", number=5004)) is TransientError


def job(state: str, reason: str = "None", **more: Any) -> Job:
    return Job(job_id=7, name=NAME, state=state, reason=reason, **more)


@pytest.mark.parametrize(
    ("found", "alive"),
    [
        (job("PENDING", "Resources"), True),
        (job("PENDING", "ReqNodeNotAvail, UnavailableNodes:n[1-2]"), True),
        (job("PENDING", "QOSMaxJobsPerUserLimit"), True),
        (job("PENDING", "AssocGrpGRES"), True),
        (job("PENDING", "QOSMaxCpuPerJobLimit"), False),
        (job("PENDING", "QOSMaxWallDurationPerJobLimit"), False),
        (job("PENDING", "BadConstraints"), False),
        (job("PENDING", "JobHeldAdmin"), True),
        (job("PENDING", "launch failed requeued held"), True),
        (job("PENDING", "NewInANewRelease"), True),
        (job("PENDING", "BeginTime", restarts=1), False),
        (job("CONFIGURING"), True),
        (job("RUNNING", nodes="n1"), True),
        (job("RUNNING", nodes="n1", ends_s=90_000), True),
        (job("RUNNING", nodes="n1", ends_s=3600), True),
        (job("SUSPENDED", nodes="n1"), True),
        (job("COMPLETING", nodes="n1"), False),
        (job("TIMEOUT", "TimeLimit", nodes="n1", limit="20:00"), False),
        (job("COMPLETED", nodes="n1", limit="20:00", limit_minutes=20, started_s=10, ends_s=1150), False),
        (job("COMPLETED", nodes="n1", limit="20:00", limit_minutes=20, started_s=10, ends_s=1000), False),
        (job("COMPLETING", nodes="n1", limit="20:00", limit_minutes=20, started_s=10, ends_s=1150), False),
        (job("PREEMPTED"), False),
        (job("OUT_OF_MEMORY"), False),
        (job("NODE_FAIL"), False),
        (job("FAILED", "NonZeroExitCode", exit_code=78), False),
        (job("FAILED", "NonZeroExitCode", exit_code=127), False),
        (job("FAILED", "RaisedSignal", signal=9), False),
        (job("FAILED", "BadConstraints", exit_code=1), False),
    ],
)  # fmt: skip
def test_what_is_told_of_a_job(found: Job, alive: bool, golden: Golden) -> None:
    seen = words.observed("i-1", found, now_s=1000, last_line="what it said")
    assert seen.alive is alive
    golden(seen.message)


def test_of_two_jobs_the_living_one_counts() -> None:
    ended, waits, runs = job("COMPLETED"), job("PENDING"), job("RUNNING")
    assert words.best([ended, waits, runs]) is runs
    assert words.best([ended, waits]) is waits


def test_options_of_sbatch() -> None:
    found = options(ASK)
    assert {"--no-requeue", "--mem=2048M", "--time=90", "--signal=B:TERM@60", "--gres=gpu:a100:1", "--partition=gpu"} <= set(
        found
    )
    endless = options(msgspec.structs.replace(ASK, limit_minutes=UNLIMITED, memory_mb=0))
    assert {"--mem=0", "--time=UNLIMITED"} <= set(endless)
    assert not any(each.startswith("--signal") for each in endless)
    assert not any(
        each.startswith(("--mem", "--time")) for each in options(msgspec.structs.replace(ASK, limit_minutes=None, memory_mb=None))
    )


def test_requests_of_old_and_new_releases() -> None:
    old, new = to_request(ASK, 38)["job"], to_request(ASK, 40)["job"]
    assert (old["gres"], old["time_limit"], old["signal"], old["environment"]) == ("gpu:a100:1", 90, "B:15@60", {"PATH": "/bin"})
    assert (new["tres_per_node"], new["time_limit"]["number"], new["environment"]) == ("gres/gpu:a100:1", 90, ["PATH=/bin"])
    assert old["requeue"] is new["requeue"] is False
    assert to_request(ASK, 39)["job"]["tres_per_node"] == "gres:gpu:a100:1"
    assert to_request(msgspec.structs.replace(ASK, limit_minutes=UNLIMITED), 40)["job"]["time_limit"]["infinite"] is True


@pytest.mark.parametrize("told", [OLD_JOB, NEW_JOB], ids=["v0.0.38", "v0.0.40"])
def test_jobs_of_old_and_new_releases(told: dict[str, Any]) -> None:
    answer = msgspec.json.decode(msgspec.json.encode({"jobs": [told], "errors": [], "meta": {}}), type=Answer)
    found = to_job(answer.jobs[0])
    assert (found.job_id, found.state, found.exit_code, found.ends_s, found.limit) == (5, "FAILED", 78, 1795455010, "20 minutes")


def test_a_state_with_flags() -> None:
    answer = msgspec.convert({"jobs": [NEW_JOB | {"job_state": ["CANCELLED", "COMPLETING"]}]}, Answer)
    assert to_job(answer.jobs[0]).state == "COMPLETING"


@pytest.mark.parametrize("partitions", [OLD_PARTITIONS, NEW_PARTITIONS], ids=["v0.0.38", "v0.0.40"])
def test_machines_of_old_and_new_releases(partitions: list[dict[str, Any]]) -> None:
    answer = msgspec.json.decode(msgspec.json.encode({"nodes": NODES, "partitions": partitions}), type=Answer)
    found = to_kinds(answer.nodes, answer.partitions)
    assert {(each.partition, each.cpus, each.gpus, each.features, each.limit_minutes) for each in found} == {
        ("main", 64, (4, "a100"), "fast", 2880)
    }


def test_a_job_is_told_what_it_needs_and_no_secret() -> None:
    given = {
        "PATH": "/opt/bin", "HOME": "/home/u", "BRICKYARD_ADMIN_TOKEN": "x", "DATABRICKS_TOKEN": "x", "SLURM_JWT": "x",
        "SSH_AUTH_SOCK": "x", "HTTPS_PROXY": "p", "UV_DEFAULT_INDEX": "i", "MY_PASSWORD": "x",
    }  # fmt: skip
    assert environment(given) == {"PATH": "/opt/bin", "HOME": "/home/u", "HTTPS_PROXY": "p", "UV_DEFAULT_INDEX": "i"}


def test_networks_that_slurm_does_not_make(tmp_path: Path, golden: Golden) -> None:
    made = setup(tmp_path)
    for change in ({"network": "isolated"}, {"internet": False}):
        with golden.refused(SetupError):
            read_section(msgspec.structs.replace(made, settings=msgspec.structs.replace(made.settings, **change)))


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"node_types": [{"node_type_id": "x", "num_cores": 1, "memory_mb": 1, "engine": {"nodelist": "n1"}}]}, ""),
        ({"node_types": [{"node_type_id": "x", "num_cores": 0.5, "memory_mb": 1}]}, ""),
        ({"account": "a b"}, "slurm.account"),
        ({"qos": "--uid=0"}, "slurm.qos"),
        ({"time_limit": "soon"}, "slurm.time_limit"),
        ({"call_timeout_s": 0}, "call_timeout_s"),
        ({"rest_url": "ftp://x"}, ""),
        ({"rest_url": "https://rest:6820"}, "slurm.rest_token_file"),
        ({"rest_url": "http://rest:6820", "rest_token_file": "/t"}, ""),
        ({"adress": "node"}, "slurm.adress"),
    ],
)
def test_mistakes_in_the_settings(tmp_path: Path, section: dict[str, object], field: str, golden: Golden) -> None:
    with golden.refused(SetupError, field):
        read_section(setup(tmp_path, **section))  # type: ignore[arg-type] # what a file could have
