"""What the process of snapshots is asked (`__main__.py`), and how a server asks it."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from brickyard.machine.children import Child, program

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
    try:
        child = await Child.start(program("brickyard.storage.snapshots"))
    except OSError as error:
        raise JobFailed(f"its process cannot be started: {error}") from error
    async with child:
        return await _follow(child, job, progress, names)


async def _follow(
    child: Child,
    job: Job,
    progress: Callable[[int], Awaitable[None]] | None,
    names: Callable[[], Awaitable[Sequence[str]]] | None,
) -> Line:
    with contextlib.suppress(ConnectionError):
        await child.send(job)
    while text := await child.line():
        line = _decode_line(text)
        if line.error:
            raise JobFailed(line.error)
        if line.done:
            return line
        if line.locked and names is not None:
            await child.send(list(await names()))
        elif progress is not None:
            await progress(line.bytes)
    await child.ended()
    raise JobFailed(f"its process ended without a result: {child.last_words}")


def manifests(store: Path) -> Path:
    """The directory of the manifests."""
    return store / "manifests"


def manifest_file(store: Path, named: Named) -> Path:
    """Where a snapshot's manifest is. A snapshot that is taken twice, because a server was killed, has two until the next
    collection, and its row names one."""
    return manifests(store) / f"{named.snapshot_id}.{named.sha256}"
