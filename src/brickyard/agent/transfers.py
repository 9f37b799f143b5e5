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

from brickyard.agent.sandbox import Network, enter
from brickyard.agent.transfer import Job, TransferFailed
from brickyard.domain.places import Kind

PATIENCE_S = 10.0  # beyond the job's own limit
AWAY_S, AGAIN_S = 75.0, 3.0  # for so long storage that is away is asked again, and how often
__all__ = ["Done", "Job", "TransferFailed", "credentials", "own_credentials", "run", "run_patiently"]

# What a cluster's environment may say. No names of files: those would be read on this machine, with the agent's rights.
_FROM_CLUSTER: dict[Kind, frozenset[str]] = {
    Kind.S3: frozenset(
        {
            "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
            "AWS_ENDPOINT_URL", "AWS_SKIP_SIGNATURE",
        }
    ),
    Kind.ABFSS: frozenset(
        {
            "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID", "AZURE_STORAGE_ENDPOINT", "AZURE_SKIP_SIGNATURE",
        }
    ),
    Kind.GS: frozenset({"GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_SKIP_SIGNATURE"}),
}  # fmt: skip
_PREFIX = {Kind.S3: "AWS_", Kind.ABFSS: "AZURE_", Kind.GS: "GOOGLE_"}
_ALWAYS = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR")


class Done(NamedTuple):
    bytes: int
    files: int


class _Line(msgspec.Struct):
    bytes: int = 0
    files: int = 0
    done: bool = False
    error: str = ""
    message: str = ""


def credentials(kind: Kind, *, cluster: Mapping[str, str], machine: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment for a transfer: the cluster's credentials if it has any for this kind of store, otherwise the
    machine's; never a mixture, so no cluster can send the machine's credentials elsewhere."""
    env = {name: machine[name] for name in _ALWAYS if name in machine}
    if own := own_credentials(kind, cluster):
        return env | own
    prefix = _PREFIX.get(kind)
    return env | {name: value for name, value in machine.items() if prefix and name.startswith(prefix)}


def own_credentials(kind: Kind, cluster: Mapping[str, str]) -> dict[str, str]:
    """What a cluster's environment says of this kind of store."""
    return {name: value for name, value in cluster.items() if name in _FROM_CLUSTER.get(kind, ())}


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
    command = [python, "-P", "-m", "brickyard.agent.transfer"]
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
        line = msgspec.json.decode(text, type=_Line)
        if line.error:
            raise TransferFailed(line.error, line.message)
        if line.done:
            return Done(line.bytes, line.files)
        progress(Done(line.bytes, line.files))
    words = (await process.stderr.read(4096)).decode(errors="replace").strip().splitlines()
    raise TransferFailed("UNAVAILABLE", f"the copy ended without a result: {words[-1][:300] if words else 'no message'}")
