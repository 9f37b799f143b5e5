"""Uploads in progress, as directories that all servers of the workspace share: any server can take the next block.

```text
uploads/<handle>/     data, about.json, lock: an upload; about.json says how many bytes of `data` have been taken
uploads/form-<hex>    a file that a single request sends, locked meanwhile
uploads/.lock         flock: held while beginning an upload
uploads/.servers/<hex>   flock: the server that has taken blocks under that name is alive
```
Methods block. What a killed server leaves cannot mislead another one: bytes beyond the count in about.json are overwritten, and
an upload whose data is already in place is just forgotten.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from brickyard.domain.access import Principal
from brickyard.domain.clock import Clock
from brickyard.domain.errors import QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.quotas import Quota
from brickyard.features.files.uploaddirectories import arriving, beginning, forget, make, take_turn, turn, write
from brickyard.machine import files, locks

HANDLES = Quota(
    "uploads in progress", total=400, share=100, reserve=40, advice="Close some, or wait: idle ones end after 10 minutes."
)
HANDLE_IDLE_MS = 10 * 60 * 1000


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """about.json. `server` and `digest` belong to the last block."""

    owner: str
    parts: tuple[str, ...]
    overwrite: bool
    used_ms: int
    size: int = 0
    server: str = ""
    digest: str = ""


_decode_upload = msgspec.json.Decoder(Upload).decode


class Uploads:
    """One per server."""

    def __init__(self, *, place: Path, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._name = secrets.token_hex(8)
        self._living = threading.Lock()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / ".servers").mkdir(mode=0o700, exist_ok=True)
        self._life = -1  # once it has taken a block: a server must start without a free inode
        self.sweep()

    def close(self) -> None:
        """Marks that this server takes no more blocks."""
        life, self._life = self._life, -1
        if life >= 0:
            os.close(life)

    def begin(self, *, owner: Principal, parts: tuple[str, ...], overwrite: bool) -> int:
        """Begins an upload and returns its handle. Raises QuotaExceeded."""
        with beginning(self._place):
            self.sweep()
            owners = self._owners()
            if why := HANDLES.refusal(owner, own=owners.count(owner.user_name), total=len(owners)):
                raise QuotaExceeded(why)
            handle = secrets.randbits(52) | 1
            upload = Upload(owner=owner.user_name, parts=parts, overwrite=overwrite, used_ms=self._clock.now_ms())
            make(self._place / str(handle), upload)
            return handle

    def find(self, handle: int) -> Upload:
        """The upload with this handle. Raises ResourceDoesNotExist."""
        try:
            upload = _decode_upload((self._place / str(handle) / "about.json").read_bytes())
        except (FileNotFoundError, msgspec.MsgspecError):  # the latter after a power failure
            raise no_handle(handle) from None
        if self._is_expired(upload):
            raise no_handle(handle)
        return upload

    def append(self, handle: int, block: bytes) -> None:
        """Appends the next block. Raises ResourceDoesNotExist."""
        with self._turn(handle) as (directory, upload):
            digest = hashlib.blake2b(block, digest_size=16).hexdigest()
            # A client that got no answer for a block sends it again. If the server that took the block ended before it could
            # answer, nobody can tell whether this is the same block or an identical next one.
            if block and digest == upload.digest and not self._lives(upload.server):
                forget(directory)
                raise ResourceDoesNotExist(
                    f"The upload with the handle {handle} has ended: the server that took its last block did, and this block is "
                    "the same, so it may have been sent twice. Create a new one."
                )
            if not _is_waiting(directory):
                raise no_handle(handle)
            with (directory / "data").open("r+b", buffering=0) as data:
                data.seek(upload.size)  # overwrites what a killed server wrote beyond that but did not acknowledge
                view = memoryview(block)
                while view:
                    view = view[data.write(view) :]
            self._live()
            changed = msgspec.structs.replace(
                upload, size=upload.size + len(block), used_ms=self._clock.now_ms(), server=self._name, digest=digest
            )
            write(directory, changed)

    def finish(self, handle: int, settle: Callable[[Path, Upload], None]) -> None:
        """Puts the file in place with `settle`. The upload has then ended, even if that failed."""
        with self._turn(handle) as (directory, upload):
            try:
                if _is_waiting(directory):
                    os.truncate(directory / "data", upload.size)
                    settle(directory / "data", upload)
            finally:
                forget(directory)

    def form(self) -> tuple[Path, int]:
        """A new file for the content of one request, as `arriving` says."""
        return arriving(self._place / f"form-{secrets.token_hex(16)}")

    def sweep(self) -> None:
        """Removes abandoned uploads. Other servers may do the same concurrently."""
        for path in list(self._place.iterdir()):
            with contextlib.suppress(OSError):
                if path.name.isdecimal():
                    self._sweep_upload(path)
                elif path.name not in (".lock", ".servers") and self._is_old(path):
                    self._sweep_other(path)
        for path in list((self._place / ".servers").iterdir()):
            with contextlib.suppress(OSError):
                if not locks.is_taken(path):
                    path.unlink()

    def _sweep_upload(self, directory: Path) -> None:
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
            if not self._is_expired(_decode_upload((directory / "about.json").read_bytes())):
                return
        if not locks.is_taken(directory / "lock"):
            forget(directory)

    def _sweep_other(self, path: Path) -> None:
        """Removes what a killed server was about to create, or a form that it received."""
        if path.is_dir():
            files.remove_tree(path)
        elif not locks.is_taken(path):
            path.unlink()

    @contextlib.contextmanager
    def _turn(self, handle: int) -> Iterator[tuple[Path, Upload]]:
        """Exclusive access to an upload, among all servers. Raises ResourceDoesNotExist."""
        directory = self._place / str(handle)
        with turn(directory, no_handle(handle)):
            yield directory, self.find(handle)

    def _owners(self) -> list[str]:
        """Whose the uploads in progress are; "" for one that cannot be read."""
        return [self._owner(name) for name in os.listdir(self._place) if name.isdecimal()]  # noqa: PTH208 - only names are needed

    def _owner(self, name: str) -> str:
        try:
            return self.find(int(name)).owner
        except (ResourceDoesNotExist, OSError):
            return ""

    def _is_expired(self, upload: Upload) -> bool:
        return upload.used_ms < self._clock.now_ms() - HANDLE_IDLE_MS

    def _is_old(self, path: Path) -> bool:
        return path.lstat().st_mtime * 1000 < self._clock.now_ms() - HANDLE_IDLE_MS

    def _live(self) -> None:
        """Holds a lock that shows that this server is alive, for as long as this process is."""
        path = self._place / ".servers" / self._name
        with self._living:
            while self._life < 0:
                life = take_turn(path, os.O_RDWR | os.O_CREAT)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(life), path.stat()):
                        self._life = life
                        return
                os.close(life)  # another server removed the file before we had the lock

    def _lives(self, server: str) -> bool:
        return server == self._name or locks.is_taken(self._place / ".servers" / Path(server).name)


def no_handle(handle: int) -> ResourceDoesNotExist:
    """The error for a handle without an open upload."""
    return ResourceDoesNotExist(f"No open upload has the handle {handle}: it was closed, or was idle for 10 minutes.")


def _is_waiting(directory: Path) -> bool:
    """Whether the data is only here. False: it is in place, and a server was killed before it forgot the upload."""
    try:
        return (directory / "data").lstat().st_nlink == 1
    except FileNotFoundError:
        return False
