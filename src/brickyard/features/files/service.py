"""The workspace's files (DBFS): a directory that all clusters see as /dbfs, read and written in blocks through the API."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

from brickyard.access import Authorizer
from brickyard.access.objects import of_path
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.files.arguments import MAX_BLOCK, VOLUMES, block_of, dbfs_parts, field, file_of, flag, seen_parts, shown
from brickyard.features.files.errors import MaxReadSizeExceeded, translated
from brickyard.features.files.tree import FileTree, receive_form, write_all
from brickyard.features.files.uploaddirectories import end_arriving
from brickyard.features.files.uploads import Upload, no_handle
from brickyard.storage.safetree import Entry, SafeTree
from brickyard.storage.schemas import top_entries
from brickyard.store.store import Store


class DbfsService:
    """One per server. Paths are absolute, `/dir/file` or `dbfs:/dir/file`. Methods raise ApiError.

    A file appears at its path, complete, when its upload is closed. Until then it is in `uploads`, which no cluster sees; all
    servers of the workspace know its handle, even after a restart.
    """

    def __init__(self, *, files: FileTree, volumes: SafeTree, store: Store, authorizer: Authorizer) -> None:
        self._volumes = volumes
        self._store = store
        self._authorizer = authorizer
        self._files = files
        self._tree, self._uploads, self._look, self._change = files.tree, files.uploads, files.run, files.change
        # Blocks of one handle wait here for each other, so that they do not occupy threads.
        self._turns: weakref.WeakValueDictionary[int, asyncio.Lock] = weakref.WeakValueDictionary()

    async def status(self, caller: Caller, path: str) -> Entry:
        """The entry at a path."""
        parts = seen_parts(path)
        await self._may(caller, Permission.CAN_READ, parts, to="see")
        if parts == (VOLUMES,):
            return await self._look(path, lambda: self._volumes.stat(())._replace(parts=parts))
        return await self._look(path, lambda: self._tree.stat(parts))

    async def list(self, caller: Caller, path: str) -> list[Entry]:
        """The entries of a directory, or the file itself."""
        parts = seen_parts(path)
        await self._may(caller, Permission.CAN_READ, parts, to="list")
        if parts == (VOLUMES,):
            found = await self._look(path, lambda: top_entries(self._volumes))
            return [entry._replace(parts=(VOLUMES, *entry.parts)) for entry in found]
        return await self._look(path, lambda: self._tree.list(parts))

    async def mkdirs(self, caller: Caller, path: str) -> None:
        """Creates a directory and its missing parents."""
        parts = dbfs_parts(path)
        await self._may(caller, Permission.CAN_EDIT, parts, to="make")
        await self._change(path, lambda: self._tree.make_directories(parts))

    async def delete(self, caller: Caller, path: str, *, recursive: bool) -> None:
        """Removes a file or directory. Nothing there is no error, as on Databricks."""
        parts = dbfs_parts(path)
        if not parts:
            raise InvalidParameterValue("The root directory cannot be deleted. Delete its contents.")
        await self._may(caller, Permission.CAN_MANAGE, parts, to="delete")

        def remove() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._tree.remove(parts, recursive=recursive)

        await self._change(path, remove)

    async def move(self, caller: Caller, source: str, destination: str) -> None:
        """Moves a file or directory to a path where nothing exists."""
        origin, target = dbfs_parts(source), dbfs_parts(destination)
        if not origin or not target or target[: len(origin)] == origin:
            raise InvalidParameterValue(
                f"{source} cannot be moved to {destination}: the destination must lie outside the source."
            )
        await self._may(caller, Permission.CAN_MANAGE, origin, to="move")
        await self._may(caller, Permission.CAN_EDIT, target, to="write")
        await self._look(source, lambda: self._tree.stat(origin))
        await self._change(destination, lambda: self._tree.move(origin, target, replace=False))

    async def read(self, caller: Caller, path: str, *, offset: int, length: int) -> bytes:
        """Reads at most 1 MiB of a file."""
        parts = file_of(path)
        if offset < 0 or length < 0:
            raise InvalidParameterValue(f"offset is {offset} and length is {length}; neither may be negative.")
        if length > MAX_BLOCK:
            raise MaxReadSizeExceeded(f"length is {length}; at most {MAX_BLOCK} bytes can be read at once. Read in parts.")
        await self._may(caller, Permission.CAN_READ, parts, to="read")
        return await self._look(path, lambda: self._tree.read(parts, offset, length))

    async def put(self, caller: Caller, path: str, contents: str, *, overwrite: bool) -> None:
        """Writes a file of at most 1 MiB, given in base64."""
        data = block_of(contents)
        target = file_of(path)
        await self._may(caller, Permission.CAN_EDIT, target, to="write")

        def write() -> None:
            self._files.check_room(caller)
            self._files.check_target(target, overwrite=overwrite)
            place, file = self._uploads.form()
            try:
                write_all(file, data)
                self._files.place(place, target, overwrite=overwrite)
            finally:
                end_arriving(place, file)

        await self._change(path, write)

    async def put_form(self, caller: Caller, parts: AsyncIterator[tuple[str, bytes]]) -> None:
        """Writes a file of any size that arrives as a form: pieces of its fields `path` and `overwrite`, and of one file.

        Fields and file may come in any order. Clients disagree about the name of the file's part: the documentation says
        `contents`, its examples `content`, the older CLI `file`.
        """
        async with self._files.draft(caller) as draft:
            fields = await receive_form(self._files, draft, parts, fields=("path", "overwrite"))
            path = field(fields, "path")
            overwrite = flag(field(fields, "overwrite") if "overwrite" in fields else "false")
            target = file_of(path)
            await self._may(caller, Permission.CAN_EDIT, target, to="write")
            await self._change(path, lambda: self._files.place_draft(draft, target, overwrite=overwrite))

    async def create(self, caller: Caller, path: str, *, overwrite: bool) -> int:
        """Begins an upload and returns the handle for its blocks."""
        parts = file_of(path)
        await self._may(caller, Permission.CAN_EDIT, parts, to="write")

        def begin() -> int:
            self._files.check_target(parts, overwrite=overwrite)
            self._files.check_room(caller)
            self._tree.make_directories(parts[:-1])
            return self._uploads.begin(owner=caller, parts=parts, overwrite=overwrite)

        return await self._change(path, begin)

    async def add_block(self, caller: Caller, handle: int, data: str) -> None:
        """Appends at most 1 MiB, given in base64."""
        block = block_of(data)
        path = await self._require(caller, handle)

        def append() -> None:
            self._files.check_room(caller)
            self._uploads.append(handle, block)

        async with self._turn(handle):
            await self._change(path, append)

    async def close(self, caller: Caller, handle: int) -> None:
        """Ends an upload: the file appears at its path."""
        path = await self._require(caller, handle)

        def settle(data: Path, upload: Upload) -> None:
            with translated(path):
                self._files.place(data, upload.parts, overwrite=upload.overwrite)

        async with self._turn(handle):
            await self._change(path, lambda: self._uploads.finish(handle, settle))

    async def _require(self, caller: Caller, handle: int) -> str:
        """The path of an upload that the caller may continue."""
        upload = await self._look("/", lambda: self._uploads.find(handle))
        if upload.owner != caller.user_name:
            raise no_handle(handle)
        await self._may(caller, Permission.CAN_EDIT, upload.parts, to="write")
        return shown(upload.parts)

    def _turn(self, handle: int) -> asyncio.Lock:
        return self._turns.setdefault(handle, asyncio.Lock())

    async def _may(self, caller: Caller, permission: Permission, parts: tuple[str, ...], *, to: str) -> None:
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, permission, of_path(parts), to=to))
