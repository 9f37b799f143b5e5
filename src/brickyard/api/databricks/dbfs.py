"""The DBFS API for the workspace's files."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.spec import Wire
from brickyard.features.files.service import DbfsService
from brickyard.storage.safetree import Entry

DEFAULT_READ = 512 * 1024
BODY_LIMIT = 3 * 1024 * 1024


class DbfsPath(Wire, frozen=True, kw_only=True):
    path: str


class DbfsCreate(Wire, frozen=True, kw_only=True):
    path: str
    overwrite: bool = False


class DbfsHandle(Wire, frozen=True, kw_only=True):
    handle: int


class DbfsAddBlock(Wire, frozen=True, kw_only=True):
    handle: int
    data: str


class DbfsPut(Wire, frozen=True, kw_only=True):
    path: str
    contents: str = ""
    overwrite: bool = False


class DbfsRead(Wire, frozen=True, kw_only=True):
    path: str
    offset: int = 0
    length: int = DEFAULT_READ


class DbfsDelete(Wire, frozen=True, kw_only=True):
    path: str
    recursive: bool = False


class DbfsMove(Wire, frozen=True, kw_only=True):
    source_path: str
    destination_path: str


class DbfsReadResponse(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is base64. At the end of the file `bytes_read` is 0, which clients rely on."""

    bytes_read: int
    data: str


class DbfsFileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Size in bytes, time in epoch milliseconds."""

    path: str
    is_dir: bool
    file_size: int
    modification_time: int


class DbfsListResponse(msgspec.Struct, frozen=True, kw_only=True):
    files: list[DbfsFileInfo]


def _info(entry: Entry) -> DbfsFileInfo:
    return DbfsFileInfo(
        path="/" + "/".join(entry.parts), is_dir=entry.is_dir, file_size=entry.size, modification_time=entry.modified_ms
    )


async def _create(dbfs: DbfsService, caller: Caller, request: DbfsCreate) -> DbfsHandle:
    return DbfsHandle(handle=await dbfs.create(caller, request.path, overwrite=request.overwrite))


async def _add_block(dbfs: DbfsService, caller: Caller, request: DbfsAddBlock) -> None:
    await dbfs.add_block(caller, request.handle, request.data)


async def _close(dbfs: DbfsService, caller: Caller, request: DbfsHandle) -> None:
    await dbfs.close(caller, request.handle)


async def _put(dbfs: DbfsService, caller: Caller, request: DbfsPut) -> None:
    await dbfs.put(caller, request.path, request.contents, overwrite=request.overwrite)


async def _read(dbfs: DbfsService, caller: Caller, request: DbfsRead) -> DbfsReadResponse:
    data = await dbfs.read(caller, request.path, offset=request.offset, length=request.length)
    return DbfsReadResponse(bytes_read=len(data), data=base64.b64encode(data).decode())


async def _get_status(dbfs: DbfsService, caller: Caller, request: DbfsPath) -> DbfsFileInfo:
    return _info(await dbfs.status(caller, request.path))


async def _list(dbfs: DbfsService, caller: Caller, request: DbfsPath) -> DbfsListResponse:
    return DbfsListResponse(files=[_info(entry) for entry in await dbfs.list(caller, request.path)])


async def _mkdirs(dbfs: DbfsService, caller: Caller, request: DbfsPath) -> None:
    await dbfs.mkdirs(caller, request.path)


async def _delete(dbfs: DbfsService, caller: Caller, request: DbfsDelete) -> None:
    await dbfs.delete(caller, request.path, recursive=request.recursive)


async def _move(dbfs: DbfsService, caller: Caller, request: DbfsMove) -> None:
    await dbfs.move(caller, request.source_path, request.destination_path)


async def _put_form(ctx: ApiContext, caller: Caller, parts: AsyncIterator[tuple[str, bytes]]) -> None:
    await ctx.services.dbfs.put_form(caller, parts)


def _path(permission: Permission, of: str = "path") -> Need:
    return Need(permission, ObjectKind.DBFS_PATH, of)


_DBFS = Group("dbfs", lambda ctx: ctx.services.dbfs, "/api/2.0/dbfs", body_limit=BODY_LIMIT, errors=(404,))
OPERATIONS: tuple[Operation, ...] = (
    _DBFS("POST /create", _create, "Begin an upload", needs=_path(Permission.CAN_EDIT)),
    _DBFS(
        "POST /add-block", _add_block, "Append a block to an upload", name="add-block", needs=_path(Permission.CAN_EDIT, "handle")
    ),
    _DBFS("POST /close", _close, "End an upload", needs=_path(Permission.CAN_EDIT, "handle")),
    _DBFS("POST /put", _put, "Write a small file", needs=_path(Permission.CAN_EDIT), upload=_put_form),
    _DBFS("GET /read", _read, "Read a part of a file", needs=_path(Permission.CAN_READ)),
    _DBFS("GET /get-status", _get_status, "What is at a path", name="get-status", needs=_path(Permission.CAN_READ)),
    _DBFS("GET /list", _list, "Entries of a directory", needs=_path(Permission.CAN_READ)),
    _DBFS("POST /mkdirs", _mkdirs, "Create a directory and its parents", needs=_path(Permission.CAN_EDIT)),
    _DBFS("POST /delete", _delete, "Remove a file or directory", needs=_path(Permission.CAN_MANAGE)),
    _DBFS(
        "POST /move",
        _move,
        "Move a file or directory",
        needs=(_path(Permission.CAN_MANAGE, "source_path"), _path(Permission.CAN_EDIT, "destination_path")),
    ),
)
