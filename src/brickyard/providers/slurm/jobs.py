"""Jobs and machines in one form, whichever way Slurm told of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

ENDED = frozenset(
    (
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    )
)
WAITING = frozenset(("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"))
UNLIMITED = -1
_GPUS = re.compile(r"gpu(?::(?P<model>[^:,()]+))?:(?P<count>\d+)(?=[,(]|$)")


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job. `reason`: Slurm's word for why it waits or how it ended."""

    job_id: int
    name: str
    state: str
    reason: str = ""
    partition: str = ""
    nodes: str = ""
    exit_code: int = 0
    signal: int = 0
    restarts: int = 0  # how often it was requeued
    started_s: int = 0
    ends_s: int = 0  # when its time limit ends it, if it runs, or when it ended; 0: never
    limit: str = ""  # its time limit, in words
    limit_minutes: int = 0  # the same; 0 or less: none

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one size in a partition."""

    partition: str
    cpus: int
    memory_mb: int  # 1 or less: Slurm was not told
    gres: str = ""
    features: str = ""
    count: int = 1
    default: bool = False  # the partition for jobs that name none
    limit_minutes: int = UNLIMITED

    @property
    def gpus(self) -> tuple[int, str]:
        """How many, and their model if Slurm knows it."""
        found = [(int(each["count"]), each["model"] or "") for each in _GPUS.finditer(self.gres)]
        return (sum(count for count, _ in found), "+".join(model for _, model in found if model)) if found else (0, "")


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A job to submit."""

    name: str
    script: str
    directory: str
    output: str
    environment: Mapping[str, str]
    cpus: int
    memory_mb: int | None  # 0: all that the machine has; None: memory is not asked for
    gres: str = ""
    partition: str = ""
    constraint: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    licenses: str = ""
    nice: int = 0
    limit_minutes: int | None = None  # UNLIMITED, or None: as the partition has it


class Client(Protocol):
    """Slurm, by its commands or by slurmrestd. Every call ends after the time limit of the settings. All raise ProviderErrors."""

    def jobs(self, name: str = "") -> Sequence[Job]:
        """Our user's jobs with this name, or with one of Brickyard's, also those that have ended a short while ago."""
        ...

    def submit(self, ask: Ask) -> int: ...

    def cancel(self, job_ids: Sequence[int]) -> None:
        """Jobs that have ended are passed over."""
        ...

    def kinds(self) -> Sequence[Kind]:
        """What the partitions have that are up."""
        ...


def job_name(workspace_id: str, instance_id: str) -> str:
    """Whose job it is: a server that knows nothing else finds it by this."""
    return f"{PREFIX}{workspace_id}-{instance_id}"


PREFIX = "brickyard-"


def minutes(text: str) -> int | None:
    """A time limit as Slurm writes it: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS. None for none. Raises ValueError."""
    text = text.strip()
    if not text or text in ("NOT_SET", "n/a", "N/A"):
        return None
    if text.upper() in ("INFINITE", "UNLIMITED"):
        return UNLIMITED
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if len(parts) > 3 or any(part < 0 for part in parts):
        raise ValueError(text)
    if dash:
        hours, mins, secs = [*parts, 0, 0][:3]
        found = int(days) * 1440 + hours * 60 + mins + (secs > 0)
    else:
        hours, mins, secs = {1: (0, *parts, 0), 2: (0, *parts), 3: tuple(parts)}[len(parts)]
        found = hours * 60 + mins + (secs > 0)
    if found <= 0:
        raise ValueError(text)
    return found


def wait_status(status: int) -> tuple[int, int]:
    """Exit code and signal of a status as wait(2) gives it, which is what Slurm keeps."""
    return (status >> 8) & 0xFF, status & 0x7F
