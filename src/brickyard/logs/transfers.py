"""Starts `transfer.py` and follows it: how agents and servers copy to and from places.

    env = credentials(place.kind, cluster=assignment.spark_env_vars, machine=os.environ)
    done = await run(Job(place=place, local="/...", max_bytes=..., limit_s=...), env=env)

With `network`, the descriptors of a node's network (`Network.descriptors`), the copy reaches only what the node can reach: always
give it when a user has named the place and the node has a network of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from brickyard.logs.credentials import NO_LIST, MachineCredentials, credentials, own_credentials
from brickyard.logs.transfer import Job, TransferFailed
from brickyard.sandbox.launcher import Network, enter

PATIENCE_S = 10.0  # beyond the job's own limit
AWAY_S, AGAIN_S = 75.0, 3.0  # for so long storage that is away is asked again, and how often
__all__ = [
    "NO_LIST",
    "Done",
    "Job",
    "MachineCredentials",
    "TransferFailed",
    "credentials",
    "own_credentials",
    "run",
    "run_patiently",
]


class Done(NamedTuple):
    bytes: int
    files: int


class _Line(msgspec.Struct):
    bytes: int = 0
    files: int = 0
    done: bool = False
    error: str = ""
    message: str = ""


_decode_line = msgspec.json.Decoder(_Line).decode


async def run_patiently(
    job: Job,
    *,
    env: Mapping[str, str],
    python: str = sys.executable,
    network: Network | None = None,
    patience_s: float = AWAY_S,
    again_s: float = AGAIN_S,
) -> Done:
    """Like `run`, and again for a while if the storage is away. All attempts together take at most `job.limit_s`."""
    began = time.monotonic()
    while True:
        left_s = max(1.0, job.limit_s - (time.monotonic() - began))
        try:
            return await run(msgspec.structs.replace(job, limit_s=left_s), env=env, python=python, network=network)
        except TransferFailed as error:
            took_s = time.monotonic() - began
            if error.code != "UNAVAILABLE" or took_s + again_s > min(patience_s, job.limit_s):
                raise
        await asyncio.sleep(again_s)


async def run(
    job: Job,
    *,
    env: Mapping[str, str],
    python: str = sys.executable,
    network: Network | None = None,
    progress: Callable[[Done], None] = lambda _: None,
) -> Done:
    """Does the job. Raises TransferFailed. Cancelling ends it at once."""
    pipe = asyncio.subprocess.PIPE
    command = [python, "-P", "-m", "brickyard.logs.transfer"]
    if network is not None:
        command = enter(python, "exec", command, network=network)
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), cwd="/", start_new_session=True,
            pass_fds=network or (),
        )  # fmt: skip
    except OSError as error:
        raise TransferFailed("UNAVAILABLE", f"the copy cannot be started: {error}") from error
    try:
        async with asyncio.timeout(job.limit_s + PATIENCE_S):
            return await _follow(process, job, progress)
    except TimeoutError as error:
        raise TransferFailed("TIMEOUT", f"it was not done within {job.limit_s:g} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with contextlib.suppress(TimeoutError):  # a process that waits for dead storage cannot be killed
                async with asyncio.timeout(2):
                    await process.wait()


async def _follow(process: asyncio.subprocess.Process, job: Job, progress: Callable[[Done], None]) -> Done:
    assert process.stdin and process.stdout and process.stderr  # noqa: S101 - all three are pipes
    with contextlib.suppress(ConnectionError):
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        await process.stdin.drain()
    while text := await process.stdout.readline():
        line = _decode_line(text)
        if line.error:
            raise TransferFailed(line.error, line.message)
        if line.done:
            return Done(line.bytes, line.files)
        progress(Done(line.bytes, line.files))
    words = (await process.stderr.read(4096)).decode(errors="replace").strip().splitlines()
    raise TransferFailed("UNAVAILABLE", f"the copy ended without a result: {words[-1][:300] if words else 'no message'}")
