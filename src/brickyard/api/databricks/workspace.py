"""The Workspace API: notebooks and the files beside them, and `workspace-files`, which the CLI and bundles use for both."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.databricks.filestreams import ANNOUNCED, HEADERS, OCTETS, announces_content, download
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.registry import Handler, Need, Operation
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.spec import Wire
from brickyard.plan.notebooks import Language
from brickyard.services.caller import Caller
from brickyard.services.files.errors import NotebookTooLarge
from brickyard.services.files.workspace import MAX_NOTEBOOK, Format, WorkspaceObject

BODY_LIMIT = 15 * 1024 * 1024  # a notebook in base64


class WorkspacePath(Wire, frozen=True, kw_only=True):
    path: str


class GetStatus(WorkspacePath, frozen=True, kw_only=True):
    return_export_info: bool = False


class ListObjects(WorkspacePath, frozen=True, kw_only=True):
    notebooks_modified_after: int = 0


class DeleteObject(WorkspacePath, frozen=True, kw_only=True):
    recursive: bool = False


class ImportObject(WorkspacePath, frozen=True, kw_only=True):
    content: str = ""
    format: Format = Format.SOURCE
    language: Language | None = None
    overwrite: bool = False


class ExportObject(WorkspacePath, frozen=True, kw_only=True):
    format: Format = Format.SOURCE
    direct_download: bool = False


class ExportResponse(msgspec.Struct, frozen=True, kw_only=True):
    """`content` is base64."""

    content: str
    file_type: str


class ImportFile(WorkspacePath, frozen=True, kw_only=True):
    overwrite: bool = False
    content_length: str = ""
    user_agent: str = ""


class ReadFile(WorkspacePath, frozen=True, kw_only=True):
    range: str = ""
    if_unmodified_since: str = ""
    if_range: str = ""


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Size in bytes, for files only; time in epoch milliseconds."""

    object_type: str
    object_id: int
    resource_id: str
    path: str
    modified_at: int
    language: Language | None = None
    size: int | None = None
    repos_export_format: str = ""


class ListObjectsResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    objects: list[ObjectInfo] = []


def _info(found: WorkspaceObject, *, export: bool = False) -> ObjectInfo:
    return ObjectInfo(
        object_type=found.kind,
        object_id=found.object_id,
        resource_id=str(found.object_id),
        path=found.path,
        modified_at=found.entry.modified_ms,
        language=found.language,
        size=found.entry.size if found.kind == "FILE" else None,
        repos_export_format=Format.SOURCE.value if export and found.language else "",
    )


async def _get_status(ctx: ApiContext, caller: Caller, request: GetStatus) -> ObjectInfo:
    return _info(await ctx.services.workspace.status(caller, request.path), export=request.return_export_info)


async def _list(ctx: ApiContext, caller: Caller, request: ListObjects) -> ListObjectsResponse:
    found = await ctx.services.workspace.list(caller, request.path, modified_after_ms=request.notebooks_modified_after)
    return ListObjectsResponse(objects=[_info(each) for each in found])


async def _mkdirs(ctx: ApiContext, caller: Caller, request: WorkspacePath) -> None:
    await ctx.services.workspace.mkdirs(caller, request.path)


async def _delete(ctx: ApiContext, caller: Caller, request: DeleteObject) -> None:
    await ctx.services.workspace.delete(caller, request.path, recursive=request.recursive)


async def _import(ctx: ApiContext, caller: Caller, request: ImportObject) -> None:
    await ctx.services.workspace.import_content(
        caller, request.path, request.content, format=request.format, language=request.language, overwrite=request.overwrite
    )


async def _import_form(ctx: ApiContext, caller: Caller, parts: AsyncIterator[tuple[str, bytes]]) -> None:
    await ctx.services.workspace.import_form(caller, parts)


async def _import_file(ctx: ApiContext, caller: Caller, request: ImportFile, body: AsyncIterable[bytes]) -> None:
    announced = announces_content(request.content_length, request.user_agent)
    await ctx.services.workspace.import_file(caller, request.path, body, overwrite=request.overwrite, announced=announced)


async def _read_file(ctx: ApiContext, caller: Caller, request: ReadFile) -> Stream:
    file = await ctx.services.workspace.open(caller, request.path)
    return download(file, range=request.range, if_unmodified_since=request.if_unmodified_since, if_range=request.if_range)


async def _export(ctx: ApiContext, caller: Caller, request: ExportObject) -> ExportResponse | Reply | Stream:
    found = await ctx.services.workspace.export(caller, request.path, format=request.format)
    if isinstance(found.content, bytes):
        if request.direct_download:
            return Reply(body=found.content, content_type=OCTETS)
        return ExportResponse(content=base64.b64encode(found.content).decode(), file_type=found.file_type)
    if request.direct_download:
        return download(found.content)
    try:
        size = found.content.entry.size
        if size > MAX_NOTEBOOK:
            raise NotebookTooLarge(
                f"{request.path} has {size} bytes; an answer holds at most {MAX_NOTEBOOK}. Pass direct_download=true."
            )
        data = b"".join([piece async for piece in found.content.pieces(0, size)])
    finally:
        found.content.close()
    return ExportResponse(content=base64.b64encode(data).decode(), file_type=found.file_type)


def _operation(name: str, method: str, path: str, handler: Handler, summary: str, **options: Any) -> Operation:
    permission, errors = options.pop("permission"), options.pop("errors", (404,))
    needs = (Need(permission, ObjectKind.WORKSPACE_PATH, "path"),)
    return Operation(
        name=name, method=method, paths=(path,), handler=handler, summary=summary, needs=needs, errors=errors, **options
    )


_TOP, _FILES = "/api/2.0/workspace", "/api/2.0/workspace-files"
_READ, _EDIT, _MANAGE = Permission.CAN_READ, Permission.CAN_EDIT, Permission.CAN_MANAGE

OPERATIONS: tuple[Operation, ...] = (
    _operation(
        "workspace.get_status", "GET", f"{_TOP}/get-status", _get_status, "What is at a path", permission=_READ,
        request=GetStatus, response=ObjectInfo,
    ),
    _operation(
        "workspace.list", "GET", f"{_TOP}/list", _list, "Objects of a directory", permission=_READ,
        request=ListObjects, response=ListObjectsResponse,
    ),
    _operation(
        "workspace.mkdirs", "POST", f"{_TOP}/mkdirs", _mkdirs, "Create a directory and its parents",
        permission=_EDIT, request=WorkspacePath,
    ),
    _operation(
        "workspace.delete", "POST", f"{_TOP}/delete", _delete, "Remove an object", permission=_MANAGE, request=DeleteObject
    ),
    _operation(
        "workspace.import", "POST", f"{_TOP}/import", _import, "Write a notebook or file", permission=_EDIT,
        request=ImportObject, upload=_import_form, body_limit=BODY_LIMIT, errors=(404, 507),
    ),
    _operation(
        "workspace.export", "GET", f"{_TOP}/export", _export, "Read a notebook or file", permission=_READ,
        request=ExportObject, response=ExportResponse, other_content_type=OCTETS,
    ),
    _operation(
        "workspace_files.import", "POST", f"{_FILES}/import-file{{path:path}}", _import_file, "Write a notebook or file",
        permission=_EDIT, request=ImportFile, streams=True, from_headers=ANNOUNCED, errors=(404, 409, 507),
    ),
    _operation(
        "workspace_files.read", "GET", f"{_FILES}{{path:path}}", _read_file, "Read a file", permission=_READ,
        request=ReadFile, content_type=OCTETS, from_headers=HEADERS, statuses=(200, 206), errors=(404, 412, 416),
    ),
)  # fmt: skip
