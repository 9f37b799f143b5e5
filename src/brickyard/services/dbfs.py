"""The workspace's files (DBFS): a directory that every cluster sees as /dbfs, read and written in blocks through the API."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import errno
import functools
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

import structlog

from brickyard.agent import files
from brickyard.domain.access import Permission
from brickyard.domain.clock import Clock
from brickyard.domain.errors import (
    ApiError,
    InvalidParameterValue,
    QuotaExceeded,
    ResourceAlreadyExists,
    ResourceDoesNotExist,
    StorageFull,
    is_full_disk,
)
from brickyard.services.access import Authorizer
from brickyard.services.access.objects import of_path
from brickyard.services.caller import Caller
from brickyard.services.safetree import Entry, SafeTree
from brickyard.store.store import Store

T = TypeVar("T")

MAX_BLOCK = 1024 * 1024
MAX_FIELD = 8 * 1024  # bytes of a form's path
MAX_HANDLES = 200
HANDLE_IDLE_MS = 10 * 60 * 1000

log = structlog.get_logger(__name__)


class MaxBlockSizeExceeded(ApiError):
    error_code = "MAX_BLOCK_SIZE_EXCEEDED"
    http_status = 400


class MaxReadSizeExceeded(ApiError):
    error_code = "MAX_READ_SIZE_EXCEEDED"
    http_status = 400


class PartialDelete(ApiError):
    """Databricks' own answer for a tree that is too large for one call; clients call again."""

    error_code = "PARTIAL_DELETE"
    http_status = 503


class FileSystemError(ApiError):
    error_code = "IO_ERROR"
    http_status = 400


class _Upload:
    """A file on its way. `file` is open for writing until `close` or the end of its time."""

    def __init__(self, *, owner: str, parts: tuple[str, ...], overwrite: bool, file: int, name: str, used_ms: int) -> None:
        self.owner = owner
        self.parts = parts
        self.overwrite = overwrite
        self.file = file
        self.name = name
        self.used_ms = used_ms
        self.turn = asyncio.Lock()  # blocks of one handle are written one after the other


class DbfsService:
    """One per server. Paths are absolute, `/dir/file` or `dbfs:/dir/file`. Methods raise ApiError.

    A file appears at its path when its upload is closed, whole; uploads do not outlive the server. Until then it is in `spool`, a
    directory that no cluster sees.
    """

    def __init__(
        self,
        *,
        root: Path,
        spool: Path,
        store: Store,
        clock: Clock,
        authorizer: Authorizer,
        refusal: Callable[[], str] = lambda: "",
    ) -> None:
        """`refusal` says why nothing may be added now; empty: it may."""
        self._store = store
        self._authorizer = authorizer
        self._spool_dir = spool
        self._refusal = refusal
        self._clock = clock
        self._tree = SafeTree(root=root)
        self._uploads: dict[int, _Upload] = {}
        root.mkdir(parents=True, exist_ok=True)
        _clear(spool)
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def status(self, caller: Caller, path: str) -> Entry:
        """What is at a path."""
        parts = _parts(path)
        await self._may(caller, Permission.CAN_READ, parts, to="see")
        return await self._do(path, lambda: self._tree.stat(parts))

    async def list(self, caller: Caller, path: str) -> list[Entry]:
        """The entries of a directory, or the file itself."""
        parts = _parts(path)
        await self._may(caller, Permission.CAN_READ, parts, to="list")
        return await self._do(path, lambda: self._tree.list(parts))

    async def mkdirs(self, caller: Caller, path: str) -> None:
        """Make a directory and those above it."""
        parts = _parts(path)
        await self._may(caller, Permission.CAN_EDIT, parts, to="make")
        await self._do(path, lambda: self._tree.make_directories(parts))

    async def delete(self, caller: Caller, path: str, *, recursive: bool) -> None:
        """Remove a file or directory."""
        parts = _parts(path)
        if not parts:
            raise InvalidParameterValue("The root directory cannot be deleted. Delete what it holds.")
        await self._may(caller, Permission.CAN_MANAGE, parts, to="delete")
        await self._do(path, lambda: self._tree.remove(parts, recursive=recursive))

    async def move(self, caller: Caller, source: str, destination: str) -> None:
        """Move a file or directory to a path where there is nothing."""
        origin, target = _parts(source), _parts(destination)
        if not origin or not target or target[: len(origin)] == origin:
            raise InvalidParameterValue(
                f"{source} cannot be moved to {destination}: the destination must lie outside the source."
            )
        await self._may(caller, Permission.CAN_MANAGE, origin, to="move")
        await self._may(caller, Permission.CAN_EDIT, target, to="write")
        await self._do(source, lambda: self._tree.stat(origin))
        await self._do(destination, lambda: self._tree.move(origin, target, replace=False))

    async def read(self, caller: Caller, path: str, *, offset: int, length: int) -> bytes:
        """At most 1 MiB of a file."""
        parts = _file(path)
        if offset < 0 or length < 0:
            raise InvalidParameterValue(f"offset is {offset} and length is {length}; neither may be negative.")
        if length > MAX_BLOCK:
            raise MaxReadSizeExceeded(f"length is {length}; at most {MAX_BLOCK} bytes can be read at once. Read in parts.")
        await self._may(caller, Permission.CAN_READ, parts, to="read")
        return await self._do(path, lambda: self._tree.read(parts, offset, length))

    async def put(self, caller: Caller, path: str, contents: str, *, overwrite: bool) -> None:
        """Write a file of at most 1 MiB, given in base64."""
        data = _block(contents)
        handle = await self.create(caller, path, overwrite=overwrite)
        try:
            await self._write(handle, self._uploads[handle], data)
        except BaseException:
            self._drop(handle)
            raise
        await self.close(caller, handle)

    async def put_form(self, caller: Caller, parts: AsyncIterator[tuple[str, bytes]]) -> None:
        """Write a file of any size that arrives as a form: pieces of its fields `path` and `overwrite`, and of one file.

        Fields and file may come in any order. Clients disagree about the name of the file's part: the documentation says
        `contents`, its examples `content`, the older CLI `file`.
        """
        name = secrets.token_hex(16)
        file = await self._do("/", lambda: self._spool(name))
        try:
            with os.fdopen(file, "wb", buffering=MAX_BLOCK) as spool:
                fields = await self._receive(parts, spool)
                await self._do("/", spool.flush)
            path = _field(fields, "path")
            overwrite = _flag(_field(fields, "overwrite") if "overwrite" in fields else "false")
            target = _file(path)
            await self._may(caller, Permission.CAN_EDIT, target, to="write")
            await self._do(path, lambda: self._place(name, target, overwrite=overwrite))
        except BaseException:
            self._forget_file(name)
            raise

    async def _receive(self, parts: AsyncIterator[tuple[str, bytes]], spool: BinaryIO) -> dict[str, bytes]:
        """Write the form's file to `spool`; returns its fields."""
        fields: dict[str, bytes] = {}
        file = ""
        async for name, piece in parts:
            if name in ("path", "overwrite"):
                fields[name] = fields.get(name, b"") + piece
                if len(fields[name]) > MAX_FIELD:
                    raise InvalidParameterValue(f"The form's {name} is longer than {MAX_FIELD} bytes.")
            elif file and name != file:
                raise InvalidParameterValue(f"The form has more than one file: {file}, {name}. Send one, named contents.")
            else:
                file = name
                self._check_room()
                await self._do("/", functools.partial(spool.write, piece))
        return fields

    def _check_room(self) -> None:
        if why := self._refusal():
            raise StorageFull(why)

    def _spool(self, name: str) -> int:
        self._check_room()
        return os.open(self._spool_dir / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def _place(self, name: str, parts: tuple[str, ...], *, overwrite: bool) -> None:
        self._check_target(parts, overwrite=overwrite)
        self._tree.bring(self._spool_dir / name, parts, replace=overwrite)

    async def create(self, caller: Caller, path: str, *, overwrite: bool) -> int:
        """Begin to upload a file; returns the handle for its blocks."""
        parts = _file(path)
        await self._may(caller, Permission.CAN_EDIT, parts, to="write")
        self._expire()
        if len(self._uploads) >= MAX_HANDLES:
            raise QuotaExceeded(f"{MAX_HANDLES} uploads are under way. Close some, or wait: idle ones end after 10 minutes.")
        name = secrets.token_hex(16)
        file = await self._do(path, lambda: self._begin(parts, name, overwrite=overwrite))
        handle = secrets.randbits(52) | 1
        self._uploads[handle] = _Upload(
            owner=caller.user_name, parts=parts, overwrite=overwrite, file=file, name=name, used_ms=self._clock.now_ms()
        )
        return handle

    async def add_block(self, caller: Caller, handle: int, data: str) -> None:
        """Append at most 1 MiB, given in base64."""
        block = _block(data)
        await self._write(handle, await self._upload(caller, handle), block)

    async def close(self, caller: Caller, handle: int) -> None:
        """End an upload: the file is at its path."""
        upload = await self._upload(caller, handle)
        async with upload.turn:
            if self._uploads.pop(handle, None) is None:
                raise _no_handle(handle)
            os.close(upload.file)
            path = _shown(upload.parts)
            try:
                await self._do(path, lambda: self._place(upload.name, upload.parts, overwrite=upload.overwrite))
            except ApiError:
                self._forget_file(upload.name)
                raise

    async def _write(self, handle: int, upload: _Upload, block: bytes) -> None:
        async with upload.turn:
            # It may have been closed while we waited, and its descriptor's number be another file's by now.
            if self._uploads.get(handle) is not upload:
                raise _no_handle(handle)
            self._check_room()
            upload.used_ms = self._clock.now_ms()
            # The descriptor is duplicated: a handle that expires meanwhile must not make us write to another file's number.
            try:
                file = os.dup(upload.file)
            except OSError as error:
                raise ResourceDoesNotExist("This upload has ended. Create a new one.") from error
            await self._do(_shown(upload.parts), lambda: _write_all(file, block))

    def _begin(self, parts: tuple[str, ...], name: str, *, overwrite: bool) -> int:
        self._check_target(parts, overwrite=overwrite)
        self._tree.make_directories(parts[:-1])
        return self._spool(name)

    def _check_target(self, parts: tuple[str, ...], *, overwrite: bool) -> None:
        """Raises OSError unless a file may be put there."""
        with contextlib.suppress(FileNotFoundError):
            if self._tree.stat(parts).is_dir:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not overwrite:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    async def _upload(self, caller: Caller, handle: int) -> _Upload:
        self._expire()
        upload = self._uploads.get(handle)
        if upload is None or upload.owner != caller.user_name:
            raise _no_handle(handle)
        await self._may(caller, Permission.CAN_EDIT, upload.parts, to="write")
        return upload

    def _expire(self) -> None:
        oldest = self._clock.now_ms() - HANDLE_IDLE_MS
        for handle in [key for key, upload in self._uploads.items() if upload.used_ms < oldest and not upload.turn.locked()]:
            self._drop(handle)

    def _drop(self, handle: int) -> None:
        upload = self._uploads.pop(handle, None)
        if upload is not None:
            os.close(upload.file)
            self._forget_file(upload.name)

    async def _may(self, caller: Caller, permission: Permission, parts: tuple[str, ...], *, to: str) -> None:
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, permission, of_path(parts), to=to))

    def _forget_file(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._spool_dir / name).unlink()

    async def _do(self, path: str, work: Callable[[], T]) -> T:
        """Work on files, on another thread and with its errors in the API's words."""

        def run() -> T:
            with _translated(path):
                return work()

        return await asyncio.to_thread(run)


def _field(fields: Mapping[str, bytes], name: str) -> str:
    try:
        return fields[name].decode()
    except KeyError as error:
        raise InvalidParameterValue(f"Missing required field: {name}") from error
    except UnicodeDecodeError as error:
        raise InvalidParameterValue(f"The form's {name} is not valid UTF-8.") from error


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidParameterValue(f"overwrite is {text!r}; it must be true or false.")
    return text.lower() == "true"


def _write_all(file: int, block: bytes) -> None:
    try:
        view = memoryview(block)
        while view:
            view = view[os.write(file, view) :]
    finally:
        os.close(file)


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ResourceDoesNotExist(f"No file or directory exists on path {path}.") from error
    except FileExistsError as error:
        raise ResourceAlreadyExists(f"A file or directory already exists at the path {path}.") from error
    except NotADirectoryError as error:
        raise ResourceAlreadyExists(f"A part of the path {path} is a file where a directory is needed.") from error
    except IsADirectoryError as error:
        raise InvalidParameterValue(f"{path} is a directory; give the path of a file.") from error
    except TimeoutError as error:
        raise PartialDelete(f"{path} holds more than one call deletes. A part is gone; call again to go on.") from error
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise FileSystemError(
                f"The directory {path} is not empty. Pass recursive=true for all in it; if you did, somebody writes there."
            ) from error
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidParameterValue(f"A name in the path {path[:100]}... is too long: 255 bytes are allowed.") from error
        if is_full_disk(error):
            raise StorageFull("The workspace's disk is full. Delete files, or give it more room.") from error
        raise FileSystemError(f"{path} could not be used: {error.strerror}.") from error


def _parts(path: str) -> tuple[str, ...]:
    """The names of a path from the root down."""
    inner = path.removeprefix("dbfs:")
    if not inner.startswith("/"):
        raise InvalidParameterValue(f"Path must be absolute: {path or '(empty)'}. Begin it with a slash.")
    parts = tuple(part for part in inner.split("/") if part not in ("", "."))
    if ".." in parts or "\x00" in inner:
        raise InvalidParameterValue(f"Path may hold neither '..' nor NUL: {path!r}.")
    return parts


def _file(path: str) -> tuple[str, ...]:
    parts = _parts(path)
    if not parts:
        raise InvalidParameterValue(f"{path} is a directory; give the path of a file.")
    return parts


def _shown(parts: tuple[str, ...]) -> str:
    return "/" + "/".join(parts)


def _block(data: str) -> bytes:
    if len(data) > MAX_BLOCK * 4 // 3 + 1024:
        raise _too_large(len(data) * 3 // 4)
    try:
        block = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _not_base64(str(error).lower()) from error
    # What decodes to the right bytes may still be written in another way than the one that there is: characters after the padding
    # or bits that nobody reads, and so a sign that something was cut off or put together wrongly.
    if base64.b64encode(block) != data.encode():
        raise _not_base64("it goes on after its padding, or its last character holds bits that mean nothing")
    if len(block) > MAX_BLOCK:
        raise _too_large(len(block))
    return block


def _not_base64(why: str) -> InvalidParameterValue:
    return InvalidParameterValue(
        f"The data is not valid base64: {why}. Send the standard alphabet (with + and /), padded, without line breaks."
    )


def _too_large(size: int) -> MaxBlockSizeExceeded:
    return MaxBlockSizeExceeded(
        f"The data has {size} bytes; a block has at most {MAX_BLOCK}. Upload it with create, add-block and close."
    )


def _no_handle(handle: int) -> ResourceDoesNotExist:
    return ResourceDoesNotExist(
        f"No open upload has the handle {handle}: it was closed, was idle for 10 minutes, or the server restarted."
    )


def _clear(spool: Path) -> None:
    """Remove what an earlier server left half-uploaded."""
    try:
        files.remove_tree(spool)
    except OSError as error:
        log.warning("old_uploads_remain", path=str(spool), reason=str(error))
