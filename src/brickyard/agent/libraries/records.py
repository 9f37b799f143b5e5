"""What each library has brought to a node, and so what a later one may not change.

    INSTANCE/libraries/installed/<name>.json    one library: what it brought, and all that it was resolved to

A library that leaves, or is installed anew, is no constraint. What it brought still is where another library was resolved to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from brickyard.domain.libraries import Library
from brickyard.machine import files
from brickyard.storage.safetree import SafeTree

MAX_RECORD = 16 << 20  # bytes of a wheel's own list of its files


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`brought`, `needs`: lines such as `helper==1.0`. `jars`: paths on the node."""

    brought: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(Record).decode


def name_of(library: Library) -> str:
    """The name of a library's record."""
    return hashlib.sha256(msgspec.json.encode(library)).hexdigest()[:32]


def read(top: Path) -> dict[str, Record]:
    """The records of a node's libraries, by their names. Blocks."""
    found = sorted((top / "installed").glob("*.json"))
    return {path.stem: _decode(path.read_bytes()) for path in found}


def write(top: Path, name: str, record: Record, *, normalized: Callable[[str], str]) -> None:
    """Records what a library has brought. It has replaced other versions of the same packages. Blocks."""
    (top / "installed").mkdir(exist_ok=True)
    new = {normalized(line.partition("==")[0]) for line in record.brought}
    for other, before in read(top).items():
        left = tuple(line for line in before.brought if normalized(line.partition("==")[0]) not in new)
        if other != name and left != before.brought:
            _put(top, other, msgspec.structs.replace(before, brought=left))
    _put(top, name, record)


def _put(top: Path, name: str, record: Record) -> None:
    files.write_atomic(top / "installed" / f"{name}.json", msgspec.json.encode(record), mode=0o644)


def there(records: Mapping[str, Record], without: Collection[str]) -> tuple[str, ...]:
    """What is on the node and stays."""
    return tuple(dict.fromkeys(line for name, each in records.items() if name not in without for line in each.brought))


def constraints(records: Mapping[str, Record], without: Collection[str]) -> tuple[str, ...]:
    """What a library may not change: what stays, and what libraries that stay were resolved to."""
    brought = {line for each in records.values() for line in each.brought}
    needed = (line for name, each in records.items() if name not in without for line in each.needs if line in brought)
    return tuple(dict.fromkeys((*there(records, without), *needed)))


# ── packages that are replaced ──────────────────────────────────────────────────────────────────────────────────────────────────


def replaced(site: Path, entry: Path, *, normalized: Callable[[str], str]) -> list[str]:
    """The files of packages in `site` that `entry` has too, in whatever version, as their wheels list them. Blocks."""
    new = {_package(about, normalized) for about in entry.glob("*.dist-info")}
    found: list[str] = []
    for about in site.glob("*.dist-info"):
        if _package(about, normalized) in new:
            found += [f"{about.name}/{path.name}" for path in about.iterdir()]
            found += _listed(about)
    return found


def scripts(names: Iterable[str]) -> list[str]:
    """The names of the programs among the files of packages."""
    found = ([part for part in PurePosixPath(name).parts if part != ".."] for name in names)
    return [parts[1] for parts in found if len(parts) == 2 and parts[0] == "bin"]


def remove(site: Path, names: Iterable[str], *, kept: Path) -> None:
    """Removes files from `site` unless they are in `kept` too, with what Python has compiled of them. The names come from wheels:
    no link is followed, and none leads outside. Blocks."""
    tree = SafeTree(root=site)
    for name in names:
        path = PurePosixPath(name)
        parts = path.parts
        if path.is_absolute() or not parts or ".." in parts or (kept / path).exists():
            continue
        for each in (path, *_compiled(site, path)):
            _remove(tree, each.parts)


def _compiled(site: Path, path: PurePosixPath) -> list[PurePosixPath]:
    if path.suffix != ".py":
        return []
    cache = path.parent / "__pycache__"
    return [cache / each.name for each in (site / cache).glob(f"{path.stem}.*.pyc")]


def _remove(tree: SafeTree, parts: tuple[str, ...]) -> None:
    """Removes a file, and the directories that it leaves empty."""
    for length in range(len(parts), 0, -1):
        try:
            tree.remove(parts[:length], recursive=False)
        except OSError:
            return


def _package(about: Path, normalized: Callable[[str], str]) -> str:
    return normalized(about.name.removesuffix(".dist-info").rpartition("-")[0])


def _listed(about: Path) -> list[str]:
    import csv  # noqa: PLC0415 - only an agent that installs needs it

    record = about / "RECORD"
    if record.is_symlink() or not record.is_file() or record.stat().st_size > MAX_RECORD:
        return []
    with record.open(newline="", errors="replace") as lines:
        return [row[0] for row in csv.reader(lines) if row]
