"""Slurm by its commands: sbatch, squeue, scancel, sinfo.

They are asked for text with fields of our choice, not for --json: the JSON has another shape in every release, is missing before
21.08, and until 23.02 ignores filters, so that each look would fetch all jobs of all users, some 5 KB each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from brickyard.providers.base import ProviderError, SetupError, ThrottledError, TransientError
from brickyard.providers.slurm.jobs import PREFIX, UNLIMITED, Ask, Job, Kind, minutes, wait_status
from brickyard.providers.slurm.refusals import is_over, refusal, said
from brickyard.providers.slurm.section import SlurmSection

PROGRAMS = ("sbatch", "squeue", "scancel", "sinfo")
_FIELDS = (
    "JobID", "State", "restartcnt", "exit_code", "StartTime", "EndTime", "TimeLimit", "Partition", "NodeList", "Name", "Reason",
)  # fmt: skip
_FORMAT = ",".join(f"{field}:|" for field in _FIELDS)  # "|" follows each, and nothing is cut off
_CONFIGURED = ("SLURM_CONF", "SLURM_JWT")  # the other variables change what the commands do and print
WARNING_S = 60  # before its time limit ends a job, its agent is told to leave


class Commands:
    """See jobs.Client. `environ`: the server's environment."""

    def __init__(self, section: SlurmSection, environ: Mapping[str, str]) -> None:
        """Raises SetupError."""
        path = section.bin_dir or environ.get("PATH", os.defpath)
        self._programs: dict[str, str] = {}
        for name in PROGRAMS:
            found = shutil.which(name, path=path)
            if found is None:
                where = f"in {section.bin_dir}" if section.bin_dir else "by PATH"
                raise SetupError(
                    f"provider slurm finds no {name} {where}: install Slurm's commands on this machine, set slurm.bin_dir to "
                    "where they are, or slurm.rest_url to a slurmrestd."
                )
            self._programs[name] = found
        kept = {
            key: value
            for key, value in environ.items()
            if not key.startswith(("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_"))
        }
        self._configured = {key: environ[key] for key in _CONFIGURED if key in environ}
        self._environ = {**kept, **self._configured, "SLURM_TIME_FORMAT": "%s"}
        self._timeout_s = section.call_timeout_s
        self._user = str(os.geteuid())

    def jobs(self, name: str = "") -> Sequence[Job]:
        chosen = [f"--name={name}"] if name else []
        text = self._asked(
            "squeue", "--noheader", "--all", "--states=all", f"--user={self._user}", f"--Format={_FORMAT}", *chosen
        )
        return parse_jobs(text)

    def submit(self, ask: Ask) -> int:
        environ = {**ask.environment, **self._configured}
        done = self._run("sbatch", *options(ask), given=ask.script, environ=environ)
        if done.returncode != 0:
            raise refusal(said(done.stderr), asked=f"{ask.cpus} CPUs" + (f", {ask.gres}" if ask.gres else ""))
        number = done.stdout.strip().splitlines()[-1:]  # sites' own messages can come before it
        try:
            return int(number[0].partition(";")[0])
        except (IndexError, ValueError):
            raise TransientError(f"sbatch did not say which job it made: {done.stdout.strip()[:200]!r}") from None

    def cancel(self, job_ids: Sequence[int]) -> None:
        done = self._run("scancel", *(str(each) for each in job_ids))
        wrong = [line for line in done.stderr.splitlines() if line.strip() and not is_over(line)]
        if done.returncode != 0 and wrong:
            raise _passing("scancel", said("\n".join(wrong)))

    def kinds(self) -> Sequence[Kind]:
        return parse_kinds(self._asked("sinfo", "--noheader", "--exact", "--format=%P|%a|%l|%c|%m|%D|%G|%f"))

    def _asked(self, program: str, *arguments: str) -> str:
        done = self._run(program, *arguments)
        if done.returncode != 0:
            raise _passing(program, said(done.stderr))
        return done.stdout

    def _run(
        self, program: str, *arguments: str, given: str = "", environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [self._programs[program], *arguments], input=given, env=dict(environ or self._environ), capture_output=True,
                text=True, errors="replace", timeout=self._timeout_s, check=False, cwd="/",
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise TransientError(f"{program} has not answered for {self._timeout_s:g} s") from error
        except OSError as error:
            raise TransientError(f"{program} cannot be run: {error}") from error


def _passing(program: str, why: str) -> ProviderError:
    error = refusal(why)
    return error if isinstance(error, ThrottledError) else TransientError(f"{program} does not answer: {why}")


def options(ask: Ask) -> list[str]:
    """The options of sbatch; the script comes by stdin."""
    found = [
        "--parsable",
        f"--job-name={ask.name}",
        "--no-requeue",
        "--export=ALL",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={ask.cpus}",
        f"--chdir={ask.directory}",
        f"--output={ask.output}",
        "--open-mode=append",
    ]
    if ask.memory_mb is not None:
        found.append(f"--mem={ask.memory_mb}M" if ask.memory_mb else "--mem=0")
    if ask.limit_minutes is not None:
        found.append(f"--time={ask.limit_minutes if ask.limit_minutes != UNLIMITED else 'UNLIMITED'}")
        if ask.limit_minutes != UNLIMITED:
            found.append(f"--signal=B:TERM@{WARNING_S}")
    for name in ("gres", "partition", "constraint", "account", "qos", "reservation", "licenses"):
        if value := getattr(ask, name):
            found.append(f"--{name}={value}")
    if ask.nice:
        found.append(f"--nice={ask.nice}")
    return found


def parse_jobs(text: str) -> list[Job]:
    """The output of squeue, Brickyard's jobs only. Raises TransientError: half a list is none."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if not line.strip() or (len(fields) > 9 and not fields[9].startswith(PREFIX)):
            continue
        try:
            number, state, restarts, status, starts, ends, limit, partition, nodes, name, *reason = fields
            code, signal = _status(status)
            found.append(
                Job(
                    job_id=int(number), name=name, state=state.rstrip("+"), reason="|".join(reason).rstrip("|"),
                    partition=partition, nodes=nodes, exit_code=code, signal=signal, restarts=int(restarts or 0), limit=limit,
                    ends_s=int(ends) if ends.isdigit() and limit.upper() != "UNLIMITED" else 0,
                    started_s=int(starts) if starts.isdigit() else 0, limit_minutes=minutes(limit) or 0,
                )
            )  # fmt: skip
        except ValueError as error:
            raise TransientError(f"squeue's answer cannot be read: {line[:200]!r}") from error
    return found


def _status(text: str) -> tuple[int, int]:
    """A status as wait(2) gives it, or CODE:SIGNAL."""
    code, colon, signal = text.partition(":")
    return (int(code or 0), int(signal or 0)) if colon else wait_status(int(code or 0))


def parse_kinds(text: str) -> list[Kind]:
    """The output of sinfo. Partitions that are not up are left out, and so is what cannot be read."""
    found = []
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) < 8 or fields[1] != "up" or not fields[3].isdigit():
            continue
        partition, _, limit, cpus, memory, count, gres, features = fields[:8]
        try:
            limit_minutes = minutes(limit) or UNLIMITED
        except ValueError:  # no time at all is among these: nothing can run there
            continue
        if not int(cpus):
            continue
        found.append(
            Kind(
                partition=partition.rstrip("*"), default=partition.endswith("*"), cpus=int(cpus),
                memory_mb=int(memory) if memory.isdigit() else 0, count=int(count) if count.isdigit() else 1, gres=_told(gres),
                features=_told(features), limit_minutes=limit_minutes,
            )
        )  # fmt: skip
    return found


def _told(text: str) -> str:
    return "" if text in ("(null)", "N/A") else text
