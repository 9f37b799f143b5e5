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
from brickyard.machine.children import Child, program
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
    command = program("brickyard.logs.transfer", python=python)
    if network is not None:
        command = enter(python, "exec", command, network=network)
    try:
        child = await Child.start(command, env=env, fds=network or ())
    except OSError as error:
        raise TransferFailed("UNAVAILABLE", f"the copy cannot be started: {error}") from error
    try:
        async with asyncio.timeout(job.limit_s + PATIENCE_S):
            return await _follow(child, job, progress)
    except TimeoutError as error:
        raise TransferFailed("TIMEOUT", f"it was not done within {job.limit_s:g} s") from error
    finally:
        await child.end()


async def _follow(child: Child, job: Job, progress: Callable[[Done], None]) -> Done:
    with contextlib.suppress(ConnectionError):
        await child.send(job)
    while text := await child.line():
        line = _decode_line(text)
        if line.error:
            raise TransferFailed(line.error, line.message)
        if line.done:
            return Done(line.bytes, line.files)
        progress(Done(line.bytes, line.files))
    await child.ended()
    raise TransferFailed("UNAVAILABLE", f"the copy ended without a result: {child.last_words}")
