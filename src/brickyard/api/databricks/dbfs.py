"""The DBFS API for the workspace's files."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Handler, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.spec import Wire
from brickyard.services.caller import Caller
from brickyard.services.files.safetree import Entry

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


async def _create(ctx: ApiContext, caller: Caller, request: DbfsCreate) -> DbfsHandle:
    return DbfsHandle(handle=await ctx.services.dbfs.create(caller, request.path, overwrite=request.overwrite))


async def _add_block(ctx: ApiContext, caller: Caller, request: DbfsAddBlock) -> None:
    await ctx.services.dbfs.add_block(caller, request.handle, request.data)


async def _close(ctx: ApiContext, caller: Caller, request: DbfsHandle) -> None:
    await ctx.services.dbfs.close(caller, request.handle)


async def _put(ctx: ApiContext, caller: Caller, request: DbfsPut) -> None:
    await ctx.services.dbfs.put(caller, request.path, request.contents, overwrite=request.overwrite)


async def _read(ctx: ApiContext, caller: Caller, request: DbfsRead) -> DbfsReadResponse:
    data = await ctx.services.dbfs.read(caller, request.path, offset=request.offset, length=request.length)
    return DbfsReadResponse(bytes_read=len(data), data=base64.b64encode(data).decode())


async def _get_status(ctx: ApiContext, caller: Caller, request: DbfsPath) -> DbfsFileInfo:
    return _info(await ctx.services.dbfs.status(caller, request.path))


async def _list(ctx: ApiContext, caller: Caller, request: DbfsPath) -> DbfsListResponse:
    return DbfsListResponse(files=[_info(entry) for entry in await ctx.services.dbfs.list(caller, request.path)])


async def _mkdirs(ctx: ApiContext, caller: Caller, request: DbfsPath) -> None:
    await ctx.services.dbfs.mkdirs(caller, request.path)


async def _delete(ctx: ApiContext, caller: Caller, request: DbfsDelete) -> None:
    await ctx.services.dbfs.delete(caller, request.path, recursive=request.recursive)


async def _move(ctx: ApiContext, caller: Caller, request: DbfsMove) -> None:
    await ctx.services.dbfs.move(caller, request.source_path, request.destination_path)


async def _put_form(ctx: ApiContext, caller: Caller, parts: AsyncIterator[tuple[str, bytes]]) -> None:
    await ctx.services.dbfs.put_form(caller, parts)


def _path(permission: Permission, of: str = "path") -> Need:
    return Need(permission, ObjectKind.DBFS_PATH, of)


_NEEDS: dict[str, tuple[Need, ...]] = {
    "create": (_path(Permission.CAN_EDIT),),
    "add-block": (_path(Permission.CAN_EDIT, "handle"),),
    "close": (_path(Permission.CAN_EDIT, "handle"),),
    "put": (_path(Permission.CAN_EDIT),),
    "read": (_path(Permission.CAN_READ),),
    "get-status": (_path(Permission.CAN_READ),),
    "list": (_path(Permission.CAN_READ),),
    "mkdirs": (_path(Permission.CAN_EDIT),),
    "delete": (_path(Permission.CAN_MANAGE),),
    "move": (_path(Permission.CAN_MANAGE, "source_path"), _path(Permission.CAN_EDIT, "destination_path")),
}


def _operation(
    method: str,
    verb: str,
    handler: Handler,
    summary: str,
    *,
    request: type[msgspec.Struct],
    response: type[msgspec.Struct] | None = None,
    **options: Any,
) -> Operation:
    return Operation(
        name=f"dbfs.{verb}",
        method=method,
        paths=(f"/api/2.0/dbfs/{verb}",),
        handler=handler,
        request=request,
        response=response,
        summary=summary,
        needs=_NEEDS[verb],
        body_limit=BODY_LIMIT,
        errors=(404,),
        **options,
    )


OPERATIONS: tuple[Operation, ...] = (
    _operation("POST", "create", _create, "Begin an upload", request=DbfsCreate, response=DbfsHandle),
    _operation("POST", "add-block", _add_block, "Append a block to an upload", request=DbfsAddBlock),
    _operation("POST", "close", _close, "End an upload", request=DbfsHandle),
    _operation("POST", "put", _put, "Write a small file", request=DbfsPut, upload=_put_form),
    _operation("GET", "read", _read, "Read a part of a file", request=DbfsRead, response=DbfsReadResponse),
    _operation("GET", "get-status", _get_status, "What is at a path", request=DbfsPath, response=DbfsFileInfo),
    _operation("GET", "list", _list, "Entries of a directory", request=DbfsPath, response=DbfsListResponse),
    _operation("POST", "mkdirs", _mkdirs, "Create a directory and its parents", request=DbfsPath),
    _operation("POST", "delete", _delete, "Remove a file or directory", request=DbfsDelete),
    _operation("POST", "move", _move, "Move a file or directory", request=DbfsMove),
)
