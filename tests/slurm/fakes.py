"""Slurm's ways in without Slurm: a controller in memory, its commands as small scripts, and a slurmrestd."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec

from brickyard.providers.base import ProviderError, TransientError
from brickyard.providers.slurm.jobs import Ask, Job, Kind

MAIN = Kind(partition="main", cpus=4, memory_mb=8192, default=True, count=3)


class Controller:
    """See slurm.jobs.Client. `refuse`: the error of the next submission; `away`: it does not answer."""

    def __init__(self) -> None:
        self.known: dict[int, Job] = {}
        self.asked: list[Ask] = []
        self.refuse: ProviderError | None = None
        self.away = False
        self.before_jobs: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def jobs(self, name: str = "") -> Sequence[Job]:
        self._there()
        with self._lock:
            found = [job for job in self.known.values() if not name or job.name == name]
        before, self.before_jobs = self.before_jobs, lambda: None
        before()
        return found

    def submit(self, ask: Ask) -> int:
        self._there()
        if self.refuse is not None:
            raise self.refuse
        with self._lock:
            self.asked.append(ask)
            job_id = len(self.asked)
            self.known[job_id] = Job(job_id=job_id, name=ask.name, state="PENDING", reason="Priority")
        return job_id

    def cancel(self, job_ids: Sequence[int]) -> None:
        self._there()
        for job_id in job_ids:
            self.set(job_id, "CANCELLED")

    def kinds(self) -> Sequence[Kind]:
        self._there()
        return [MAIN]

    def set(self, job_id: int, state: str, **more: object) -> None:
        with self._lock:
            job = msgspec.to_builtins(self.known[job_id]) | {"state": state} | more
            self.known[job_id] = msgspec.convert(job, Job)

    def forget(self) -> None:
        """Jobs that have ended, as a controller does after MinJobAge."""
        with self._lock:
            self.known = {number: job for number, job in self.known.items() if not job.ended}

    def _there(self) -> None:
        if self.away:
            raise TransientError("squeue does not answer: Unable to contact slurm controller (connect failure)")


def commands(place: Path, **scripts: str) -> Path:
    """A directory with sbatch, squeue, scancel and sinfo: lines of shell each, nothing by default."""
    place.mkdir()
    for name in ("sbatch", "squeue", "scancel", "sinfo"):
        (place / name).write_text(f"#!/bin/sh\n{scripts.get(name, ':')}\n")
        (place / name).chmod(0o755)
    return place


Answers = Callable[[str, str, bytes], tuple[int, object]]


@contextlib.contextmanager
def slurmrestd(path: Path, answers: Answers) -> Iterator[str]:
    """Serves what `answers(method, path, body)` says, at a unix socket. Gives the URL."""

    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "somebody"  # a unix socket has no address

        def log_message(self, format: str, *args: object) -> None:
            pass

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, told = answers(self.command, self.path, body)
            data = told if isinstance(told, bytes) else msgspec.json.encode(told)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = answer

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"unix:{path}"
        finally:
            server.shutdown()
            thread.join()
