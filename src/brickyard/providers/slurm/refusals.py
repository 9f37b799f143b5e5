"""Slurm's errors, as the provider's errors. Slurm's commands only give the text of an error, slurmrestd also its number. Pure."""

from __future__ import annotations

import re

from brickyard.providers.base import (
    CapacityError,
    InvalidError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
)

# Numbers and texts of slurm_errno.h. What is in none of these lists is a refusal for good: sites write their own.
_QUOTA = {
    2002: "Access/permission denied",
    2003: "User's group not permitted to use this partition",
    2045: "Invalid account or account/partition combination specified",
    2050: "Job violates accounting/QOS policy",
    2051: "Requested time limit is invalid",
    2052: "Access denied to requested reservation",
    2066: "Invalid qos specification",
    2074: "Requested account has breached requested QOS usage threshold",
}
_CAPACITY = {
    2013: "Immediate execution impossible, insufficient priority",
    2015: "Requested partition configuration not available now",
    2016: "Requested nodes are busy",
    2035: "Immediate execution impossible, resources too fragmented",
    2056: "Requested reservation not usable now",
    2068: "Required node not available",
    2070: "Required partition not available",
    2101: "Partition in DOWN state",
}
_THROTTLED = {
    11: "Slurm temporarily unable to accept job",
    35: "Resource temporarily unavailable",
    9998: "RPC rate limit exceeded",
}
_TRANSIENT = {
    1000: "Unexpected message received",
    1001: "Communication connection failure",
    1002: "Message send failure",
    1003: "Message receive failure",
    1004: "Communication shutdown failure",
    1007: "Protocol authentication error",
    1800: "Unable to contact slurm controller",
    1801: "Unable to contact slurm controller",
    1802: "Unable to contact slurm controller",
    1803: "Unable to contact slurm controller",
    2007: "Unable to create job record, try again",
    2019: "I/O error writing script/environment to file",
    2027: "Slurm backup controller in standby mode",
    2103: "the DB index is being set",
    2105: "System submissions disabled",
    2131: "Controller is in standby mode",
    5000: "Received zero length message",
    5001: "Received message length < 0",
    5002: "Failed to send entire message",
    5003: "Header lengths are longer than data received",
    5004: "Socket timed out on send/recv operation",
    5005: "Zero Bytes were transmitted or received",
    9999: "Could not establish a configuration source",
}
OVER = {2017: "Invalid job id specified", 2021: "Job/step already completing or completed", 2084: "Job has already finished"}
UNSPECIFIED = "Unspecified error"  # what sites' own rules answer, beside a message of theirs
_NOISE = re.compile(r"^\s*(sbatch|squeue|scancel|sinfo|slurm_load_\w+)(: (error|fatal))?:\s*", re.MULTILINE)
_LEAD = re.compile(r"^(Batch job submission failed|slurm_\w+ error|Kill job error on job id \d+):\s*")


def said(text: str) -> str:
    """What a command complains of, without the names of programs: the last line is the reason, if there are several."""
    lines = [_LEAD.sub("", line.strip()) for line in _NOISE.sub("", text).splitlines() if line.strip()]
    told = [line for line in lines if line != UNSPECIFIED] or lines
    return told[-1] if told else "no reason was given"


def refusal(text: str, *, number: int = 0, asked: str = "") -> ProviderError:
    """The error for a job that Slurm did not take. `asked`: the node type, in words."""
    why = f"Slurm refuses the job: {text}"
    if _among(_THROTTLED, text, number):
        return ThrottledError(why)
    if _among(_TRANSIENT, text, number):
        return TransientError(f"Slurm cannot take a job now: {text}")
    if _among(_CAPACITY, text, number):
        return CapacityError(why, asked=asked or "a job", left=text)
    if _among(_QUOTA, text, number):
        return QuotaError(f"{why}; if it is the time, set slurm.time_limit" if "time limit" in text else why)
    return InvalidError(why)


def is_over(text: str, number: int = 0) -> bool:
    """Whether a job could not be cancelled because it has ended, or is no longer known."""
    return _among(OVER, text, number)


def _among(known: dict[int, str], text: str, number: int) -> bool:
    return number in known or any(each.lower() in text.lower() for each in known.values())
