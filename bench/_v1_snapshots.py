"""Snapshots of a workspace directory, against `tar | zstd` of the same files, side by side on the same disk.

Both read files that are not in memory, and end when what they have written is on the disk. The second snapshot is taken after one
in a hundred files has changed. Beside the seconds is the processor time of both: on a busy machine, only that says something.
Alone: `./dev python -m bench._v1_snapshots`; on a quiet machine with 2 cores it takes about two minutes.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench._harness import PREFIX, Row, limited, medians, table
from brickyard.storage.snapshots import job as jobs
from brickyard.storage.snapshots.job import Job, Named

ROUNDS = 3
MIB = 1 << 20
FIRST, SECOND = 1.5, 0.2  # at most: against tar | zstd, and against the first
WORDS = [f"{left}{right}" for left in ("loss", "step", "load", "epoch", "lr") for right in ("=", " of ", ": ", "-mean ")]


def main() -> int:
    rows: list[Row] = []
    for name, make in (("checkpoints, logs, small files", mixed), ("random bytes", noise)):
        with tempfile.TemporaryDirectory(prefix=PREFIX) as place:
            current, chance = Path(place, "workspace", "current"), random.Random(1)  # noqa: S311 - no secret
            current.mkdir(parents=True)
            make(current, chance)
            rounds = [measured(current, Path(place, f"round-{number}"), chance) for number in range(ROUNDS)]
        tar, first, second = (medians(Took, each) for each in zip(*rounds, strict=True))
        rows.append((f"1 GiB of {name}", *tar, *first, *limited(first.wall_s / tar.wall_s, FIRST)))
        rows.append(("the same, 1 % of the files changed", "", "", *second, *limited(second.wall_s / first.wall_s, SECOND)))
    processor = "its processor time, s"
    head = ("workspace directory", "tar, zstd, sync, s", processor, "snapshot, s", processor, "ratio", "at most")
    return table(f"Snapshots, medians of {ROUNDS} rounds", head, rows)


class Took(NamedTuple):
    """Seconds, and those of processors."""

    wall_s: float
    cpu_s: float


def measured(current: Path, place: Path, chance: random.Random) -> tuple[Took, Took, Took]:
    """What tar with zstd takes, the first snapshot and the second."""
    place.mkdir()
    forget(current)
    tar = timed(lambda: packed(current, place / "packed"))
    forget(current)
    first = timed(lambda: taken(current, place, "one", None))
    files = sorted(path for path in current.rglob("*") if path.is_file())
    for path in chance.sample(files, max(1, len(files) // 100)):
        path.write_bytes(chance.randbytes(path.stat().st_size))
    before = next((place / "store" / "manifests").iterdir()).name.partition(".")
    forget(current)
    second = timed(lambda: taken(current, place, "two", Named(before[0], before[2])))
    shutil.rmtree(place)
    return tar, first, second


def packed(source: Path, target: Path) -> None:
    """What people do by hand. zstd has its usual level, 3, as chunks do."""
    command = f"nice -n 10 tar cf - -C '{source}' . | nice -n 10 zstd -q -o '{target}' && sync '{target}'"
    subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], check=True)


def taken(current: Path, place: Path, name: str, before: Named | None) -> None:
    """The whole job, with its process, as a server starts it."""
    room = 1 << 40
    asked = Job(
        kind="take",
        store=str(place / "store"),
        directory=str(current.parent),
        snapshot=Named(name, ""),
        before=before,
        max_bytes=room,
        max_stored=room,
    )
    asyncio.run(jobs.run(asked))


def timed(work: Callable[[], None]) -> Took:
    """How long it takes, with the processor time of the processes that it starts."""
    began, spent = time.perf_counter(), children_s()
    work()
    return Took(time.perf_counter() - began, children_s() - spent)


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def forget(directory: Path) -> None:
    """Takes the files out of memory."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def mixed(root: Path, chance: random.Random) -> None:
    """Half of it in 16 checkpoints of weights, three eighths in 48 logs, the rest in 8,192 small files."""
    exponents = bytes.maketrans(bytes(range(256)), bytes(chance.choice(b"\x3b\x3c\x3d\xbb\xbc\xbd") for _ in range(256)))
    for number in range(16):
        weights = bytearray(chance.randbytes(32 * MIB))
        weights[3::4] = weights[3::4].translate(exponents)
        (root / f"checkpoint-{number}").write_bytes(weights)
    for number in range(48):
        (root / f"log-{number}").write_bytes(text(chance, 8 * MIB))
    small = text(chance, 128 * MIB)
    for number in range(8192):
        path = root / f"{number % 64}" / str(number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(small[number << 14 : (number + 1) << 14])


def noise(root: Path, chance: random.Random) -> None:
    """Nothing to compress: what is left is reading, hashing and writing."""
    for number in range(256):
        (root / str(number)).write_bytes(chance.randbytes(4 * MIB))


def text(chance: random.Random, size: int) -> bytes:
    """Lines such as those of logs."""

    def lines() -> Iterator[str]:
        for number in range(size // 60):
            bits = chance.getrandbits(64)
            yield f"{number:08} 2026-01-01T00:00:00Z {WORDS[bits % 20]}{bits >> 40} {WORDS[(bits >> 8) % 20]}{bits & 0xFFFF}\n"

    return "".join(lines()).encode().ljust(size, b"\n")[:size]


if __name__ == "__main__":
    if shutil.which("zstd") is None:
        raise SystemExit("this benchmark needs the program zstd")
    raise SystemExit(main())
