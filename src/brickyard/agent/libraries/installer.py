"""What installing any kind of library has in common: the node, the installer's process, and the machine's cache.

CACHE/libraries/<key>/        what one library needs, complete or absent; nodes get hard links or copies
CACHE/libraries/installer/    all that installers can write: drafts of such entries, and uv's own cache

An installer reads what strangers have written. So it runs in the sandbox, where the machine has one. It sees the runtime, and
what it is given; its network has the nodes' rules; it finds no program but its own.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from brickyard.agent.config import AgentConfig
from brickyard.agent.libraries import records
from brickyard.agent.networks import Lend
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine import locks
from brickyard.machine.addresses import NetworkError
from brickyard.sandbox.launcher import Network, Sandbox
from brickyard.sandbox.view import View, write_etc

KEPT_S = 24 * 3600.0  # after the last use
IN_USE_S = 1800.0  # what was used within this time is never removed: an agent may be putting it onto its node
MAX_BYTES = 10 << 30  # of all that is kept besides
_WORKSHOP = "installer"
_SIZE = "size"  # a file of each entry: its bytes when it was made
LOOK_S = (0.05, 0.5)  # how often a waiting agent looks whether another one is done: the longer it has waited, the more rarely
MAX_LINES = 64 << 10  # bytes of one line, or of those that come at once
MESSAGE = 2000  # characters of what the installer says
NOWHERE = "/nonexistent"


class LibraryError(Exception):
    """The library cannot be installed; the message says why, for users."""


class Target(NamedTuple):
    """The node on which to install. `linked`: its processes cannot write to what is linked there."""

    config: AgentConfig
    manifest: RuntimeManifest
    linked: bool
    walls: Sandbox
    network: Network | None  # the node's network, through which a user's `repo` is reached
    lend: Lend  # networks with the same rules, through which the machine's own index is reached
    name: str = ""  # of the library's record; "": what is installed is no library of the cluster
    leaving: frozenset[str] = frozenset()  # names of the records of libraries that others may replace

    @property
    def top(self) -> Path:
        return self.config.libraries_dir

    @property
    def cache(self) -> Path:
        return Path(self.config.cache_dir, "libraries")

    @property
    def workshop(self) -> Path:
        """The part of the cache that installers see."""
        return workshop(self.cache)

    @property
    def pins(self) -> str:
        """What the libraries installed so far have brought; a later one may not change it."""
        return "".join(f"{line}\n" for line in records.constraints(records.read(self.top), self._without))

    @property
    def there(self) -> tuple[str, ...]:
        """What the libraries that stay have brought."""
        return records.there(records.read(self.top), self._without)

    @property
    def _without(self) -> frozenset[str]:
        return self.leaving | {self.name}


# ── the installer's process ─────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def network_of(target: Target, urls: Sequence[str] | None) -> AsyncIterator[Network | None]:
    """The network of an installer: the node's own, or, for the machine's repositories at `urls`, a new one that leads to them as
    well. Raises LibraryError."""
    if urls is None:
        yield target.network
        return
    try:
        async with target.lend(urls) as network:
            yield network
    except NetworkError as error:
        raise LibraryError(f"the installer's network cannot be made: {error}") from error


def view_of(target: Target, *, etc: Path, reads: Sequence[str], writes: Path) -> View:
    """What an installer sees: the runtime, the files in `reads`, and the directory `writes`."""
    config, manifest = target.config, target.manifest
    write_etc(etc, hostname="installer", host=config.node_host, home=NOWHERE)
    return View(
        hostname="installer", etc=str(etc), interpreter=manifest.python, trees=((str(writes), str(writes)),),
        read_only=tuple(filter(None, (manifest.home, manifest.python_base, manifest.java_real, *reads))),
        hidden=tuple(filter(None, (config.data_dir, config.storage_dir, config.instance_dir))),
    )  # fmt: skip


async def execute(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path, walls: Sandbox, view: View, network: Network | None,
    hints: Mapping[str, str],
) -> None:  # fmt: skip
    """Runs an installer. Raises LibraryError with what it said last. Cancelling ends it. `hints`: words -> what to do."""
    there = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *command]
    line = await asyncio.to_thread(walls.command, there, view=view, network=network)
    try:
        # Under the launcher, so that it ends when we do. Without a PATH, it finds no other program: no git, no credential helper.
        process = await asyncio.create_subprocess_exec(
            *line, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            env={**env, "PATH": NOWHERE}, start_new_session=True, pass_fds=network or (),
        )  # fmt: skip
    except OSError as error:
        raise LibraryError(f"the installer cannot be started: {error}") from error
    lines: collections.deque[str] = collections.deque(maxlen=20)
    try:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        last = b""  # of a line whose end has not come yet: installers write line by line or word by word
        while data := await process.stdout.read(16 << 10):
            *whole, last = (last + data)[-MAX_LINES:].split(b"\n")
            lines.extend(line.decode(errors="replace") for line in whole)
        lines.append(last.decode(errors="replace"))
        if await process.wait():
            raise LibraryError(explain(lines, hints))
    finally:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(sig)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2):
                        await process.wait()


def explain(lines: Sequence[str], hints: Mapping[str, str]) -> str:
    """Returns the installer's last lines, with a hint where it is not obvious what to do."""
    text = "\n".join(line.rstrip() for line in lines if line.strip())[-MESSAGE:] or "the installer failed without a message"
    hint = next((hint for words, hint in hints.items() if words in " ".join(text.split())), "")
    return f"{text}\n{hint}".strip()


# ── the cache ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def prepared(cache: Path, key: str, prepare: Callable[[Path], Awaitable[None]]) -> Path:
    """Returns what `prepare` made in the machine's cache for this key. One agent prepares it, and the others wait."""
    entry, drafts = cache / key, workshop(cache)
    await asyncio.to_thread(drafts.mkdir, parents=True, exist_ok=True)
    async with locked(cache / f"{key}.lock"):
        if not entry.is_dir():
            await asyncio.to_thread(prune, cache)
            with tempfile.TemporaryDirectory(dir=drafts, prefix="draft-") as draft:
                new = Path(draft, "new")
                await prepare(new)
                await asyncio.to_thread((new / _SIZE).write_text, str(size_of(new)))
                await asyncio.to_thread(new.rename, entry)
        await asyncio.to_thread(os.utime, entry)  # it is in use: `prune` removes what is not
    return entry


def workshop(cache: Path) -> Path:
    return cache / _WORKSHOP


@contextlib.asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    began = time.monotonic()
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not locks.take(fd):  # noqa: ASYNC110 - no event tells of another process's lock
                await asyncio.sleep(min(LOOK_S[1], max(LOOK_S[0], (time.monotonic() - began) / 10)))
            if _is_at(fd, path):
                yield
                return
        finally:
            os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    """Whether the open file is still the one at the path: `prune` may have removed it, and another agent made a new one."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def prune(cache: Path, *, limit: int = MAX_BYTES) -> None:
    """Removes what was not used for long, and of the rest what was used longest ago while all takes more than `limit` bytes:
    nodes have links or copies of their own."""
    now = time.time()
    kept = []
    for path in (*cache.iterdir(), *workshop(cache).glob("draft-*")):
        with contextlib.suppress(OSError):
            used = path.stat().st_mtime
            if path.name == _WORKSHOP:
                continue
            if path.name.endswith(".lock"):
                _remove_lock(path, before=now - KEPT_S)
            elif now - used > KEPT_S:
                shutil.rmtree(path)
            elif path.parent == cache:
                kept.append((used, size_of(path), path))
    over = sum(size for _, size, _ in kept) - limit
    for used, size, path in sorted(kept):
        if over <= 0 or now - used < IN_USE_S:
            break
        with contextlib.suppress(OSError):
            shutil.rmtree(path)
            over -= size


def _remove_lock(path: Path, *, before: float) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_mtime < before and locks.take(fd):
            path.unlink()
    finally:
        os.close(fd)


def size_of(path: Path) -> int:
    """The bytes below a directory of the cache."""
    with contextlib.suppress(OSError, ValueError):
        return int((path / _SIZE).read_text())
    found = 0
    for directory, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                found += Path(directory, name).lstat().st_size
    return found


def put_file(source: Path, place: Path, *, linked: bool) -> None:
    """Links a file of the cache to the node, or copies it. A symbolic link stays one, so it leads to what the node sees."""
    place.unlink(missing_ok=True)  # two packages may bring the same file; the later one counts, as with pip
    if linked:
        try:
            os.link(source, place, follow_symlinks=False)
        except OSError:  # another file system, or too many links
            linked = False
    if not linked:
        shutil.copy2(source, place, follow_symlinks=False)
