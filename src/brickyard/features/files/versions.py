"""Earlier contents of notebooks, and the turns of those who replace them.

```text
versions/.turns/<00..3f>                     flock: held while content is compared and replaced
versions/<hash>/<hash>/.v/<saved ms>-<hex>   a line of JSON, then the content as it was on disk
```
There is a hash for each name of the notebook's path.
No cluster sees the directory. What is below a path goes with that path. All servers share it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from brickyard.domain.clock import Clock
from brickyard.domain.errors import ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.features.files.notebooks import Language
from brickyard.machine import files, locks

DEEPEST: Final = 64  # names of a path; notebooks below keep no versions
MOST: Final = 50  # versions of a notebook
MOST_BYTES: Final = 20 * 1024 * 1024  # of all versions of a notebook; the newest one is kept in any case
SITTING_MS: Final = 5 * 60 * 1000  # what one person saves within that time is one version
_TURNS: Final = 64
_TURN_PATIENCE_S: Final = 20.0
_MAX_ABOUT: Final = 4096
_CONTENTS, _TURN_FILES = ".v", ".turns"  # no hash begins with a dot


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What a notebook contained from `saved_ms` on. `saved_by`: "" if nobody saved it through the API. `kept_ms`: when it was
    replaced. `created_ms`: of the notebook; another one at the same path has another. `size` in bytes, as on disk."""

    saved_ms: int
    saved_by: str
    created_ms: int
    language: Language
    size: int
    kept_ms: int = 0


class Kept(NamedTuple):
    """A version and its id, which sorts by the time of its saving."""

    version_id: str
    version: Version


_decode = msgspec.json.Decoder(Version).decode


def is_wanted(kept: Sequence[Kept], version: Version, by: str) -> bool:
    """Whether content that `by` replaces becomes a version. An editor that saves every few seconds makes one version in five
    minutes, beside what somebody else had saved. Pure."""
    newest = max((each.version.kept_ms for each in kept), default=None)
    return newest is None or version.saved_by != by or not 0 <= version.kept_ms - newest < SITTING_MS


def surplus(kept: Sequence[Kept], created_ms: int) -> list[Kept]:
    """The versions that go: those of an earlier notebook of the path, and the oldest ones beyond the bounds. Pure."""
    gone, size = [], 0
    for number, each in enumerate(sorted(kept, reverse=True), 1):
        size += each.version.size
        if each.version.created_ms != created_ms or number > MOST or (size > MOST_BYTES and number > 1):
            gone.append(each)
    return gone


class NotebookVersions:
    """One per server. Methods block and raise OSError."""

    def __init__(self, *, place: Path, clock: Clock) -> None:
        self._place = place
        self._clock = clock

    @contextlib.contextmanager
    def turn(self, parts: tuple[str, ...]) -> Iterator[None]:
        """Nobody else replaces what is at that path through the API meanwhile. Raises TemporarilyUnavailable."""
        turns = self._place / _TURN_FILES
        turns.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = int(_hash("/".join(parts)), 16) % _TURNS
        held = os.open(turns / f"{number:02x}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if not locks.take(held, patience_s=_TURN_PATIENCE_S):
                raise TemporarilyUnavailable("Another request is writing this notebook or file. Try again.")
            yield
        finally:
            os.close(held)

    def keep(self, parts: tuple[str, ...], content: bytes, version: Version, *, by: str) -> None:
        """Makes a version of content that `by` is about to replace, if it is wanted. Call it within `turn`."""
        version = msgspec.structs.replace(version, kept_ms=self._clock.now_ms())
        created = version.created_ms
        if len(parts) > DEEPEST:
            return
        kept = self._all(parts)
        if is_wanted([each for each in kept if each.version.created_ms == created], version, by):
            directory = self._directory(parts)
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{version.saved_ms:013d}-{secrets.token_hex(4)}"
            files.write_atomic(directory / name, msgspec.json.encode(version) + b"\n" + content)
            kept.append(Kept(name, version))
        for each in surplus(kept, created):
            (self._directory(parts) / each.version_id).unlink(missing_ok=True)

    def of(self, parts: tuple[str, ...], created_ms: int) -> list[Kept]:
        """The versions of the notebook that was created then, newest first."""
        return sorted((each for each in self._all(parts) if each.version.created_ms == created_ms), reverse=True)

    def read(self, parts: tuple[str, ...], created_ms: int, version_id: str) -> tuple[Version, bytes]:
        """A version and its content. Raises ResourceDoesNotExist."""
        if any(each.version_id == version_id for each in self.of(parts, created_ms)):
            with contextlib.suppress(FileNotFoundError):
                about, _, content = (self._directory(parts) / version_id).read_bytes().partition(b"\n")
                return _decode(about), content
        raise ResourceDoesNotExist(f"The notebook has no version {version_id[:100]}. It may have been removed by newer ones.")

    def forget(self, parts: tuple[str, ...]) -> None:
        """Removes the versions of everything at and below a path."""
        if len(parts) <= DEEPEST:
            files.remove_tree(self._directory(parts).parent)

    def _directory(self, parts: tuple[str, ...]) -> Path:
        return self._place.joinpath(*(_hash(name) for name in parts), _CONTENTS)

    def _all(self, parts: tuple[str, ...]) -> list[Kept]:
        directory, found = self._directory(parts), []
        with contextlib.suppress(FileNotFoundError):
            for path in directory.iterdir():
                if path.name.startswith("."):  # on its way, or left by a killed server
                    continue
                # Removed meanwhile, or from a power failure.
                with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError), path.open("rb") as file:
                    found.append(Kept(path.name, _decode(file.readline(_MAX_ABOUT))))
        return found


def etag_of(content: bytes) -> str:
    """A name for the content of a notebook: it is the same as long as the content on disk is."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _hash(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
