"""What the process of snapshots is asked (`__main__.py`), and how a server asks it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

KILL_S = 5.0
_ALWAYS = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")


JobKind = Literal["take", "restore", "discard", "give_up", "collect"]


class Named(msgspec.Struct, frozen=True):
    """A snapshot that is available."""

    snapshot_id: str
    sha256: str


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`directory`: the cluster's, below `workspaces` (`exchange.py`). Bytes: at most `max_bytes` of files and `max_stored` of all
    chunks, and `min_free` stay free on the disk. `number`: of the cluster's task."""

    kind: JobKind
    store: str
    directory: str = ""
    number: int = 0
    snapshot: Named | None = None  # to restore, or to be taken, which has no digest yet
    before: Named | None = None
    max_bytes: int = 0
    max_stored: int = 0
    min_free: int = 0


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the process prints, one JSON object a line. The last one is `done`, or has an `error`."""

    bytes: int = 0  # read or written so far
    done: bool = False
    locked: bool = False  # collect: nobody writes now; it waits for the names of all manifests
    error: str = ""
    sha256: str = ""
    files: int = 0
    left_out: int = 0
    stored: int = 0


_decode_line = msgspec.json.Decoder(Line).decode


class JobFailed(Exception):
    """What was asked for cannot be done. The message says why. Everything is as before."""


async def run(
    job: Job,
    *,
    progress: Callable[[int], Awaitable[None]] | None = None,
    names: Callable[[], Awaitable[Sequence[str]]] | None = None,
) -> Line:
    """Does the job in a process of its own. Raises JobFailed. Cancelling ends the process at once; so does the end of ours."""
    pipe = asyncio.subprocess.PIPE
    env = {name: os.environ[name] for name in _ALWAYS if name in os.environ}
    command = [sys.executable, "-P", "-m", "brickyard.storage.snapshots"]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd="/", start_new_session=True
        )
    except OSError as error:
        raise JobFailed(f"its process cannot be started: {error}") from error
    try:
        return await _follow(process, job, progress, names)
    finally:
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        process.stdin.close()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        with contextlib.suppress(TimeoutError):  # a process that waits for dead storage cannot be killed
            async with asyncio.timeout(KILL_S):
                await process.communicate()  # to the end of its pipes: the event loop may close after this


async def _follow(
    process: asyncio.subprocess.Process,
    job: Job,
    progress: Callable[[int], Awaitable[None]] | None,
    names: Callable[[], Awaitable[Sequence[str]]] | None,
) -> Line:
    assert process.stdin and process.stdout and process.stderr  # noqa: S101 - all three are pipes
    with contextlib.suppress(ConnectionError):
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        await process.stdin.drain()
    while text := await process.stdout.readline():
        line = _decode_line(text)
        if line.error:
            raise JobFailed(line.error)
        if line.done:
            return line
        if line.locked and names is not None:
            process.stdin.write(msgspec.json.encode(list(await names())) + b"\n")
            await process.stdin.drain()
        elif progress is not None:
            await progress(line.bytes)
    words = (await process.stderr.read(4096)).decode(errors="replace").strip().splitlines()
    raise JobFailed(f"its process ended without a result: {words[-1][:300] if words else 'no message'}")


def manifests(store: Path) -> Path:
    """The directory of the manifests."""
    return store / "manifests"


def manifest_file(store: Path, named: Named) -> Path:
    """Where a snapshot's manifest is. A snapshot that is taken twice, because a server was killed, has two until the next
    collection, and its row names one."""
    return manifests(store) / f"{named.snapshot_id}.{named.sha256}"
