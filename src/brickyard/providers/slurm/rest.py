"""Slurm by slurmrestd: API v0.0.36 and newer, over a unix socket or TCP with a token.

Each version has its own shapes. Numbers are plain until v0.0.38 and {"set", "infinite", "number"} since v0.0.39; states become
lists in v0.0.40. One function each reads both.
"""

from __future__ import annotations

import http.client
import os
import pwd
import re
import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from brickyard.providers.base import ThrottledError, TransientError
from brickyard.providers.slurm.commands import WARNING_S
from brickyard.providers.slurm.jobs import PREFIX, UNLIMITED, Ask, Job, Kind, wait_status
from brickyard.providers.slurm.refusals import UNSPECIFIED, is_over, refusal
from brickyard.providers.slurm.section import SlurmSection

NEWEST, OLDEST = 44, 36
_VERSION = re.compile(r"^/slurm/v0\.0\.(\d+)/job/submit/?$")
_INFINITE = 0xFFFFFFFF  # Slurm's own number for it
_ENOUGH = 512 << 20  # bytes of an answer


class _Error(msgspec.Struct):
    error: str | None = ""
    description: str | None = ""
    error_number: int | None = 0
    error_code: int | None = 0

    @property
    def number(self) -> int:
        return self.error_number or self.error_code or 0

    @property
    def text(self) -> str:
        if self.error and self.error != UNSPECIFIED:
            return self.error
        return self.description or self.error or f"error {self.number}"


class _Job(msgspec.Struct, gc=False):
    job_id: int
    name: str | None = ""
    job_state: str | list[str] = ""
    state_reason: str | None = ""
    partition: str | None = ""
    nodes: str | None = ""
    exit_code: Any = 0
    restart_cnt: int | None = 0
    start_time: Any = 0
    end_time: Any = 0
    time_limit: Any = None
    user_id: int | None = None


class _Node(msgspec.Struct):
    name: str = ""
    cpus: int = 0
    real_memory: int = 0
    gres: str | None = ""
    features: str | list[str] | None = ""
    partitions: list[str] = []


class Answer(msgspec.Struct):
    """What we read of any answer."""

    errors: list[_Error] = []
    jobs: list[_Job] = []
    nodes: list[_Node] = []
    partitions: list[dict[str, Any]] = []
    job_id: Any = 0
    job_submit_user_msg: str | None = ""  # of the site's own rules for jobs


_decode_answer = msgspec.json.Decoder(Answer).decode


class Rest:
    """See jobs.Client."""

    def __init__(self, section: SlurmSection) -> None:
        self._section = section
        self._url = urlsplit(section.rest_url)
        self._timeout_s = section.call_timeout_s
        self._version = 0
        self._slash = ""  # newer versions end their lists with one

    def jobs(self, name: str = "") -> Sequence[Job]:
        answer = self._good("GET", self._at("jobs"))
        ours = os.geteuid() if not self._section.rest_user else None
        found = []
        for each in answer.jobs:
            called = each.name or ""
            if called.startswith(PREFIX) and (not name or called == name) and (ours is None or each.user_id in (None, ours)):
                found.append(to_job(each))
        return found

    def submit(self, ask: Ask) -> int:
        body = to_request(ask, self._known_version())
        status, answer = self._call("POST", self._at("job/submit"), body)
        number = _number(answer.job_id)
        if number:
            return number  # with an error beside it, the job was taken and waits
        wrong = answer.errors[0] if answer.errors else _Error(error=f"HTTP {status}")
        _check(status)
        if wrong.error == UNSPECIFIED and not answer.job_submit_user_msg:
            raise TransientError(f"slurmrestd cannot submit a job: {wrong.text}{self._doubt}")
        asked = f"{ask.cpus} CPUs" + (f", {ask.gres}" if ask.gres else "")
        raise refusal(answer.job_submit_user_msg or wrong.text, number=wrong.number, asked=asked)

    def cancel(self, job_ids: Sequence[int]) -> None:
        for each in job_ids:
            status, answer = self._call("DELETE", self._at(f"job/{each}"))
            _check(status)
            wrong = [error for error in answer.errors if not is_over(error.text, error.number)]
            if wrong:
                raise TransientError(f"job {each} cannot be cancelled: {wrong[0].text}")

    def kinds(self) -> Sequence[Kind]:
        nodes = self._good("GET", self._at("nodes")).nodes
        partitions = self._good("GET", self._at("partitions")).partitions
        return to_kinds(nodes, partitions)

    def _known_version(self) -> int:
        """The newest version that both sides know. Asked once."""
        if not self._version:
            data = self._fetch("GET", "/openapi/v3")[1]
            try:
                paths = list(msgspec.json.decode(data)["paths"])
            except (msgspec.DecodeError, KeyError, TypeError) as error:
                raise TransientError("slurmrestd does not say which versions of its API it has") from error
            found = [int(match[1]) for path in paths if (match := _VERSION.match(path))]
            usable = [each for each in found if OLDEST <= each <= NEWEST]
            if not usable:
                known = ", ".join(f"v0.0.{each}" for each in sorted(found)) or "none"
                raise TransientError(f"slurmrestd has no version of its API from v0.0.{OLDEST} to v0.0.{NEWEST}: {known}")
            version = max(usable)
            self._slash = "/" if f"/slurm/v0.0.{version}/jobs/" in paths else ""
            self._version = version
        return self._version

    def _at(self, path: str) -> str:
        version = self._known_version()
        return f"/slurm/v0.0.{version}/{path}{self._slash if path in _LISTS else ''}"

    def _good(self, method: str, path: str) -> Answer:
        status, answer = self._call(method, path)
        _check(status)
        if answer.errors or status >= 400:
            said = answer.errors[0].text if answer.errors else f"HTTP {status}"
            raise TransientError(f"slurmrestd cannot tell: {said}{self._doubt}")
        return answer

    @property
    def _doubt(self) -> str:
        """What may be behind an error without a reason."""
        return "; is the token in slurm.rest_token_file still valid?" if self._section.rest_token_file else ""

    def _call(self, method: str, path: str, body: object = None) -> tuple[int, Answer]:
        status, data = self._fetch(method, path, body)
        try:
            return status, _decode_answer(data)
        except msgspec.MsgspecError as error:
            _check(status)
            if status == 404:
                self._version = 0  # another release has taken its place
            raise TransientError(f"slurmrestd's answer (HTTP {status}) cannot be read: {error}") from error

    def _fetch(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """One request, within the time limit as a whole."""
        deadline = time.monotonic() + self._timeout_s
        connection = self._connection()
        try:
            data = msgspec.json.encode(body) if body is not None else None
            connection.request(method, path, body=data, headers=self._headers(data is not None))
            response = connection.getresponse()
            parts, size = [], 0
            while part := response.read1(1 << 20):
                parts.append(part)
                size += len(part)
                if time.monotonic() > deadline or size > _ENOUGH:
                    raise TransientError(f"slurmrestd has not answered within {self._timeout_s:g} s")
            return response.status, b"".join(parts)
        except (OSError, http.client.HTTPException) as error:
            raise TransientError(
                f"slurmrestd at {self._section.rest_url} does not answer: {error or type(error).__name__}"
            ) from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._url.scheme == "unix":
            return _UnixConnection(self._url.path, self._timeout_s)
        host = self._url.hostname or ""
        if self._url.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, self._url.port, timeout=self._timeout_s, context=context)
        return http.client.HTTPConnection(host, self._url.port, timeout=self._timeout_s)

    def _headers(self, with_body: bool) -> dict[str, str]:
        headers = {"Content-Type": "application/json"} if with_body else {}
        if file := self._section.rest_token_file:
            try:
                token = Path(file).read_text().strip().removeprefix("SLURM_JWT=")
            except OSError as error:
                raise TransientError(f"slurm.rest_token_file cannot be read: {error}") from error
            headers["X-SLURM-USER-NAME"] = self._section.rest_user or pwd.getpwuid(os.geteuid()).pw_name
            headers["X-SLURM-USER-TOKEN"] = token
        return headers


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


_LISTS = ("jobs", "nodes", "partitions")


def to_request(ask: Ask, version: int) -> dict[str, Any]:
    """The body of a submission."""
    new = version >= 39
    job: dict[str, Any] = {
        "name": ask.name,
        "requeue": False,
        "tasks": 1,
        "cpus_per_task": ask.cpus,
        "current_working_directory": ask.directory,
        "standard_output": ask.output,
        "environment": [f"{key}={value}" for key, value in ask.environment.items()] if new else dict(ask.environment),
    }
    job |= {"minimum_nodes": 1, "maximum_nodes": 1} if new else {"nodes": [1, 1]}
    if ask.memory_mb is not None:
        job["memory_per_node"] = {"set": True, "number": ask.memory_mb} if new else ask.memory_mb
    if ask.limit_minutes is not None:
        endless = ask.limit_minutes == UNLIMITED
        job["time_limit"] = (
            {"set": True, "infinite": endless, "number": 0 if endless else ask.limit_minutes}
            if new
            else _INFINITE
            if endless
            else ask.limit_minutes
        )
        if not endless and new:
            job |= {"kill_warning_signal": "TERM", "kill_warning_delay": {"set": True, "number": WARNING_S}}
            job["kill_warning_flags"] = ["BATCH_JOB"]
        elif not endless:
            job["signal"] = f"B:15@{WARNING_S}"
    if ask.gres:
        prefix = "gres/" if version >= 40 else "gres:"
        job |= {"tres_per_node": prefix + ask.gres} if new else {"gres": ask.gres}
    for key, value in (
        ("partition", ask.partition),
        ("constraints", ask.constraint),
        ("account", ask.account),
        ("qos", ask.qos),
        ("reservation", ask.reservation),
        ("licenses", ask.licenses),
        ("nice", ask.nice),
    ):
        if value:
            job[key] = value
    return {"script": ask.script, "job": job}


def to_job(each: _Job) -> Job:
    states = [each.job_state] if isinstance(each.job_state, str) else each.job_state
    state = next((flag for flag in ("COMPLETING", "CONFIGURING") if flag in states), states[0] if states else "")
    requeued = any(flag.startswith(("REQUEUE", "SPECIAL_EXIT")) for flag in states)
    code, signal = _status(each.exit_code)
    limit = _number(each.time_limit)
    ends_s = _number(each.end_time) if limit and limit != _INFINITE else 0
    return Job(
        job_id=each.job_id,
        name=each.name or "",
        state=state,
        reason=each.state_reason or "",
        partition=each.partition or "",
        nodes=each.nodes or "",
        exit_code=code,
        signal=signal,
        restarts=max(each.restart_cnt or 0, int(requeued)),
        started_s=_number(each.start_time),
        ends_s=ends_s,
        limit=f"{limit} minutes" if limit else "",
        limit_minutes=limit if limit != _INFINITE else 0,
    )


def to_kinds(nodes: Sequence[_Node], partitions: Sequence[dict[str, Any]]) -> list[Kind]:
    """Machines of each partition that is up."""
    found = []
    for each in partitions:
        name = str(each.get("name", ""))
        if "UP" not in _states(each):
            continue
        limit = each.get("max_time_limit", (each.get("maximums") or {}).get("time"))
        minutes = _number(limit)
        default = "default" in [
            str(flag).lower() for flag in each.get("flags") or (each.get("partition") or {}).get("flags") or ()
        ]
        for node in nodes:
            if name in node.partitions and node.cpus:
                features = node.features if isinstance(node.features, str) else ",".join(node.features or ())
                found.append(
                    Kind(partition=name, default=default, cpus=node.cpus, memory_mb=node.real_memory, gres=node.gres or "",
                         features=features, limit_minutes=minutes if minutes > 0 and minutes != _INFINITE else UNLIMITED)
                )  # fmt: skip
    return found


def _states(partition: dict[str, Any]) -> list[str]:
    state = partition.get("state", (partition.get("partition") or {}).get("state", "UP"))
    return [state] if isinstance(state, str) else list(state)


def _number(value: Any) -> int:
    """A number in either form; 0 if it is not set or infinite."""
    if isinstance(value, dict):
        return int(value.get("number") or 0) if value.get("set") and not value.get("infinite") else 0
    return value if isinstance(value, int) and value > 0 else 0


def _status(value: Any) -> tuple[int, int]:
    """Exit code and signal."""
    if isinstance(value, dict):
        signal = value.get("signal") or {}
        return _number(value.get("return_code")), _number(signal.get("id", signal.get("signal_id")))
    return wait_status(value) if isinstance(value, int) else (0, 0)


def _check(status: int) -> None:
    """Answers that say nothing of jobs."""
    if status == 429:
        raise ThrottledError("slurmrestd asks for a pause")
    if status in (401, 403):
        raise TransientError("slurmrestd does not accept our token: renew the file slurm.rest_token_file (`scontrol token`)")
