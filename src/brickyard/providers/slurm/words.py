"""What becomes of an instance, from what Slurm says of its job; in words, for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from brickyard.agent.unit import CONFIG_EXIT
from brickyard.providers.base import Observed
from brickyard.providers.slurm.jobs import WAITING, Job

SOON_S = 3600  # before its time limit ends a job, people are told
EARLY_S = 130  # before it, a job's agent has ended: it is told a minute before, and Slurm may be a minute early

_WAITS = {
    "None": "to be looked at",
    "Resources": "for machines with room for it",
    "Priority": "behind jobs of higher priority",
    "BeginTime": "for its time to begin",
    "Dependency": "for another job",
    "Licenses": "for licences",
    "Reservation": "for its reservation to begin",
    "ReqNodeNotAvail": "for machines that are down, drained or reserved",
    "PartitionConfig": "for its partition to have such a machine",
    "PartitionDown": "because its partition is down",
    "PartitionInactive": "because its partition is inactive",
    "Nodes required for job are DOWN": "for machines that are down, drained or reserved",
    "NodeDown": "because a machine that it needs is down",
    "JobHeldAdmin": "because an operator holds it",
    "JobHeldUser": "because it is held (scontrol release)",
    "Prolog": "for the machine's preparation (prolog)",
    "Cleaning": "for the machine's cleaning",
    "FrontEndDown": "because the front end is down",
    "JobArrayTaskLimit": "for other tasks",
    "MaxJobCount": "because the controller has as many jobs as it takes",
}
# By what Slurm's own reasons are called: limits that count what runs let the job go when something else ends.
_LIMITS = (
    ("MaxWallDuration", "asks for a longer time than is allowed: set slurm.time_limit"),
    ("PerJob", "asks for more than one job may have"),
    ("PerNode", "asks for more on one machine than is allowed"),
)
_NEVER = {
    "BadConstraints": "no machine has what it asks for",
    "PartitionNodeLimit": "its partition does not allow what it asks for",
    "PartitionTimeLimit": "its time limit is longer than the partition's",
    "DependencyNeverSatisfied": "what it depends on never comes",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AccountNotAllowed": "its account may not use the partition",
    "QOSNotAllowed": "its QOS may not use the partition",
    "AccountingPolicy": "the accounting policy forbids it",
    "ReservationDeleted": "its reservation was removed",
}
_ENDS = {
    "BOOT_FAIL": "its machine did not boot",
    "CANCELLED": "it was cancelled, by an operator or by its user",
    "COMPLETED": "its agent ended",
    "DEADLINE": "its deadline passed",
    "LAUNCH_FAILED": "it could not be started on its machine",
    "NODE_FAIL": "its machine failed, or Slurm lost touch with it",
    "OUT_OF_MEMORY": "it used more memory than its node type has",
    "PREEMPTED": "a job of higher priority took its machine (preemption)",
    "REVOKED": "another cluster of the federation took it",
    "TIMEOUT": "its time limit ended it",
}
_RANK = ("RUNNING", "SUSPENDED", "COMPLETING", "PENDING")


def best(jobs: Sequence[Job]) -> Job:
    """Of an instance's jobs, the one that counts. There can be two only after a crash while one was submitted: the second finds
    that the first has taken the instance, and ends."""

    def rank(job: Job) -> tuple[bool, int, int]:
        return job.ended, _RANK.index(job.state) if job.state in _RANK else len(_RANK), -job.job_id

    return min(jobs, key=rank)


def observed(instance_id: str, job: Job, *, now_s: float, last_line: str = "") -> Observed:
    """The instance of that job. `last_line`: what the job wrote last, if it has ended."""
    if job.restarts or job.state in ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"):
        said = f"{_called(job)} was put back into the queue, which ended its instance"
        return Observed(instance_id=instance_id, alive=False, message=said)
    if job.ended:
        return Observed(instance_id=instance_id, alive=False, message=ending(job, last_line))
    if job.state in WAITING:
        if never := hopeless(job.reason):
            return Observed(instance_id=instance_id, alive=False, message=f"{_called(job)} can never run: {never}")
        return Observed(instance_id=instance_id, alive=True, message=f"{_called(job)} waits {waiting(job)}")
    message = ""
    if job.state == "COMPLETING":
        why = f", since its time limit has come ({job.limit})" if _at_limit(job) else ""
        return Observed(instance_id=instance_id, alive=False, message=f"{_called(job)} is ending{why}")
    if job.state in ("SUSPENDED", "STOPPED"):
        message = f"{_called(job)} is suspended: nothing of it runs until Slurm resumes it"
    elif job.ends_s and job.ends_s - now_s <= SOON_S:
        at = datetime.fromtimestamp(job.ends_s, UTC)
        message = f"the time limit of {_called(job)} ends this node at {at:%Y-%m-%d %H:%M} UTC"
    return Observed(instance_id=instance_id, alive=True, message=message)


def hopeless(reason: str) -> str:
    """Why a job with that reason for waiting never runs, unless an administrator changes something; "" if waiting helps."""
    if said := _NEVER.get(reason):
        return f"{said} ({reason})"
    if reason.startswith(("QOS", "Assoc")):
        return next((f"it {said} ({reason})" for end, said in _LIMITS if end in reason and "Grp" not in reason), "")
    return ""


def waiting(job: Job) -> str:
    """What the job waits for, as the end of a sentence."""
    reason = job.reason
    word = reason.partition(",")[0].strip("()")
    if job.state == "CONFIGURING":
        return "for its machine to be made ready"
    if word.startswith(("QOS", "Assoc")):
        return f"because a limit of its {'QOS' if word.startswith('QOS') else 'account or user'} is reached ({word})"
    if "launch failed" in reason:
        return "because it could not be started and is held: an operator must release it"
    return f"{_WAITS.get(word, 'in the queue')} ({reason or job.state})"


def ending(job: Job, last_line: str = "") -> str:
    """How the job ended."""
    state = "TIMEOUT" if job.state == "COMPLETED" and _at_limit(job) else job.state
    if said := _ENDS.get(state):
        return f"{_called(job)} ended: {said}" + (f" ({job.limit})" if state == "TIMEOUT" and job.limit else "")
    if job.reason in _NEVER:
        return f"{_called(job)} can never run: {_NEVER[job.reason]} ({job.reason})"
    if job.exit_code == CONFIG_EXIT and last_line:
        return f"its machine cannot run an agent: {last_line}"
    how = f"by signal {job.signal}" if job.signal else f"with code {job.exit_code}"
    return f"{_called(job)} failed {how}" + (f": {last_line}" if last_line else f" ({job.reason})" if job.reason else "")


def _at_limit(job: Job) -> bool:
    """Whether a job that has ended had no more time."""
    return bool(job.limit_minutes > 0 and job.started_s and job.ends_s >= job.started_s + 60 * job.limit_minutes - EARLY_S)


def _called(job: Job) -> str:
    return f"Slurm job {job.job_id}" + (f" on {job.nodes}" if job.nodes else "")
