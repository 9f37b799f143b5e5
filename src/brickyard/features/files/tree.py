"""One tree of the workspace's files, for the services over it: streams in and out, on threads, with the API's errors."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from brickyard.domain.access import Principal
from brickyard.domain.errors import InvalidParameterValue, StorageFull
from brickyard.features.files.arguments import MAX_FIELD
from brickyard.features.files.errors import MISSING, translated
from brickyard.features.files.uploaddirectories import end_arriving
from brickyard.features.files.uploads import Uploads
from brickyard.storage.safetree import Entry, SafeTree
from brickyard.store.store import Store

T = TypeVar("T")
PIECE = 1024 * 1024  # bytes that are read or written at once: fewer cost more switches between threads


@dataclass(kw_only=True)
class Draft:
    """A file of `owner` on its way into a tree. `size` bytes of it have arrived, which are added to `digest`. `announced`: its
    request says that it has content."""

    owner: Principal
    path: Path
    file: int
    size: int = 0
    announced: bool = False
    digest: hashlib.blake2b | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the content did not arrive: clients that repeat a request may have read their stream to its end before."""
        return self.announced and not self.size


@dataclass(frozen=True, kw_only=True)
class OpenFile:
    """A file that is being read: nothing that happens to its path changes what is read. `close` it."""

    entry: Entry
    file: int

    def close(self) -> None:
        os.close(self.file)

    async def pieces(self, start: int, length: int) -> AsyncIterator[bytes]:
        """Yields a part of the file. Raises OSError if the file has become shorter."""
        while length > 0:
            piece = await asyncio.to_thread(os.pread, self.file, min(PIECE, length), start)
            if not piece:
                raise OSError(errno.EIO, "the file was cut short while it was read")
            start, length = start + len(piece), length - len(piece)
            yield piece


class Room(Protocol):
    """Whether there is room for more files: `DiskRoom`."""

    def refusal(self, principal: Principal) -> str:
        """Why that user may add nothing now; "" if they may."""
        ...


class FileTree:
    """One per tree and server. Coroutines raise ApiError. The other methods block and raise OSError: call them within `run`."""

    def __init__(
        self,
        *,
        root: Path,
        uploads: Uploads,
        store: Store,
        room: Room | None = None,
    ) -> None:
        """`uploads` is shared by all trees. Without a `room`, there is always room."""
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.tree = SafeTree(root=root)
        self.uploads = uploads
        self._store = store
        self._room = room
        self.missing = MISSING  # says that nothing is at a path

    async def run(self, path: str, work: Callable[[], T]) -> T:
        """Runs file system work on another thread and converts its errors to the API's, about that path."""

        def translating() -> T:
            with translated(path, missing=self.missing):
                return work()

        return await asyncio.to_thread(translating)

    async def change(self, path: str, work: Callable[[], T]) -> T:
        """`run` for work that changes what others see."""
        await self._store.before_effect()
        return await self.run(path, work)

    def check_room(self, principal: Principal) -> None:
        """Raises StorageFull while that user may add nothing."""
        if self._room is not None and (why := self._room.refusal(principal)):
            raise StorageFull(why)

    def check_target(self, parts: tuple[str, ...], *, overwrite: bool) -> None:
        """Raises OSError unless a file may be written there."""
        with contextlib.suppress(FileNotFoundError):
            if self.tree.stat(parts).is_dir:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not overwrite:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    def place(self, source: Path, parts: tuple[str, ...], *, overwrite: bool, existing: int = 0) -> None:
        """Moves a complete file to its path. The first `existing` names of the path must exist."""
        self.check_target(parts, overwrite=overwrite)
        self.tree.bring(source, parts, replace=overwrite, existing=existing)

    def place_draft(self, draft: Draft, parts: tuple[str, ...], *, overwrite: bool, existing: int = 0) -> None:
        """The same for a draft. Raises InvalidParameterValue where one that is lost would replace content."""
        if draft.is_lost:
            with contextlib.suppress(FileNotFoundError):
                if (size := self.tree.stat(parts).size) > draft.path.stat().st_size:
                    raise InvalidParameterValue(
                        f"The content is empty, and {parts[-1]} has {size} bytes: nothing was replaced. Send the content again, "
                        "from its beginning. To empty the file, delete it first, or send a body with Content-Length: 0."
                    )
        self.place(draft.path, parts, overwrite=overwrite, existing=existing)

    async def open(self, path: str, parts: tuple[str, ...]) -> OpenFile:
        """Opens a file for reading."""
        file, entry = await self.run(path, lambda: self.tree.open(parts))
        return OpenFile(entry=entry, file=file)

    @contextlib.asynccontextmanager
    async def draft(self, owner: Principal) -> AsyncIterator[Draft]:
        """A new file that no cluster sees; it is removed at the end unless it was placed."""
        path, file = await self.run("/", self.uploads.form)
        try:
            yield Draft(owner=owner, path=path, file=file)
        finally:
            end_arriving(path, file)

    async def receive(self, draft: Draft, pieces: AsyncIterable[bytes]) -> None:
        """Writes what arrives to the draft."""
        waiting = bytearray()  # a write for each piece would cost a switch to another thread
        async for piece in pieces:
            waiting += piece
            if len(waiting) >= PIECE:
                await self.add(draft, bytes(waiting))
                waiting.clear()
        await self.add(draft, bytes(waiting))

    async def add(self, draft: Draft, data: bytes) -> None:
        """Appends to the draft."""

        def write() -> None:
            self.check_room(draft.owner)
            write_all(draft.file, data)
            if draft.digest is not None:
                draft.digest.update(data)

        await self.run("/", write)
        draft.size += len(data)


async def receive_form(
    tree: FileTree, draft: Draft, parts: AsyncIterator[tuple[str, bytes]], *, fields: Collection[str]
) -> dict[str, bytes]:
    """Writes the file of a form to the draft, and returns the form's fields. They may come in any order; whatever is not in
    `fields` is the file, since clients disagree about the name of its part."""
    found: dict[str, bytes] = {}
    name_of_file = ""

    async def contents() -> AsyncIterator[bytes]:
        nonlocal name_of_file
        async for name, piece in parts:
            if name in fields:
                found[name] = found.get(name, b"") + piece
                if len(found[name]) > MAX_FIELD:
                    raise InvalidParameterValue(f"The form's {name} is longer than {MAX_FIELD} bytes.")
            elif name_of_file and name != name_of_file:
                raise InvalidParameterValue(f"The form has more than one file: {name_of_file}, {name}. Send one.")
            else:
                name_of_file = name
                draft.announced = True
                yield piece

    await tree.receive(draft, contents())
    return found


def write_all(file: int, data: bytes) -> None:
    """Writes all of the data. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
