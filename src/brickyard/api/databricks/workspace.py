"""The Workspace API: notebooks and the files beside them, and `workspace-files`, which the CLI and bundles use for both."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, AsyncIterator

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.databricks.filestreams import ANNOUNCED, HEADERS, OCTETS, announces_content, download
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Need, Operation
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.spec import Wire
from brickyard.features.files.errors import NotebookTooLarge
from brickyard.features.files.formats import MAX_NOTEBOOK, Format
from brickyard.features.files.notebooks import Language
from brickyard.features.files.workspace import WorkspaceObject, WorkspaceService

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
    created_at: int
    modified_at: int
    language: Language | None = None
    size: int | None = None
    repos_export_format: str = ""


class ImportResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    object_id: int


class UserId(Wire, frozen=True, kw_only=True):
    id: str


class ListObjectsResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    objects: list[ObjectInfo] = []


def _info(found: WorkspaceObject, *, export: bool = False) -> ObjectInfo:
    return ObjectInfo(
        object_type=found.kind,
        object_id=found.object_id,
        resource_id=str(found.object_id),
        path=found.path,
        created_at=found.created_ms,
        modified_at=found.entry.modified_ms,
        language=found.language,
        size=found.entry.size if found.kind == "FILE" else None,
        repos_export_format=found.export_format.value if export and found.language else "",
    )


async def _get_status(workspace: WorkspaceService, caller: Caller, request: GetStatus) -> ObjectInfo:
    return _info(await workspace.status(caller, request.path), export=request.return_export_info)


async def _list(workspace: WorkspaceService, caller: Caller, request: ListObjects) -> ListObjectsResponse:
    found = await workspace.list(caller, request.path, modified_after_ms=request.notebooks_modified_after)
    return ListObjectsResponse(objects=[_info(each) for each in found])


async def _mkdirs(workspace: WorkspaceService, caller: Caller, request: WorkspacePath) -> None:
    await workspace.mkdirs(caller, request.path)


async def _delete(workspace: WorkspaceService, caller: Caller, request: DeleteObject) -> None:
    await workspace.delete(caller, request.path, recursive=request.recursive)


async def _make_home(workspace: WorkspaceService, caller: Caller, request: UserId) -> None:
    await workspace.make_home(caller, request.id)


async def _import(workspace: WorkspaceService, caller: Caller, request: ImportObject) -> ImportResponse:
    number = await workspace.import_content(
        caller, request.path, request.content, format=request.format, language=request.language, overwrite=request.overwrite
    )
    return ImportResponse(object_id=number)


async def _import_form(ctx: ApiContext, caller: Caller, parts: AsyncIterator[tuple[str, bytes]]) -> ImportResponse:
    return ImportResponse(object_id=await ctx.services.workspace.import_form(caller, parts))


async def _import_file(
    workspace: WorkspaceService, caller: Caller, request: ImportFile, body: AsyncIterable[bytes]
) -> ImportResponse:
    announced = announces_content(request.content_length, request.user_agent)
    number = await workspace.import_file(caller, request.path, body, overwrite=request.overwrite, announced=announced)
    return ImportResponse(object_id=number)


async def _read_file(workspace: WorkspaceService, caller: Caller, request: ReadFile) -> Stream:
    file = await workspace.open(caller, request.path)
    return download(file, range=request.range, if_unmodified_since=request.if_unmodified_since, if_range=request.if_range)


async def _export(workspace: WorkspaceService, caller: Caller, request: ExportObject) -> ExportResponse | Reply | Stream:
    found = await workspace.export(caller, request.path, format=request.format)
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


_READ, _EDIT, _MANAGE = (
    Need(each, ObjectKind.WORKSPACE_PATH, "path") for each in (Permission.CAN_READ, Permission.CAN_EDIT, Permission.CAN_MANAGE)
)

_WORKSPACE = Group("workspace", lambda ctx: ctx.services.workspace, "/api/2.0/workspace", errors=(404,))
_FILES = Group("workspace_files", lambda ctx: ctx.services.workspace, "/api/2.0/workspace-files")
OPERATIONS: tuple[Operation, ...] = (
    _WORKSPACE("GET /get-status", _get_status, "What is at a path", needs=_READ),
    _WORKSPACE("GET /list", _list, "Objects of a directory", needs=_READ),
    _WORKSPACE("POST /mkdirs", _mkdirs, "Create a directory and its parents", needs=_EDIT),
    _WORKSPACE("POST /delete", _delete, "Remove an object", needs=_MANAGE),
    _WORKSPACE(
        "POST /import",
        _import,
        "Write a notebook or file",
        needs=_EDIT,
        body_limit=BODY_LIMIT,
        upload=_import_form,
        errors=(404, 507),
    ),
    _WORKSPACE(
        "PUT /user/{id}/homefolder",
        _make_home,
        "Create a user's home",
        name="make_home",
        needs=Need(Permission.CAN_MANAGE, ObjectKind.WORKSPACE_PATH, "id"),
    ),
    _WORKSPACE("GET /export", _export, "Read a notebook or file", needs=_READ, other_content_type=OCTETS),
    _FILES(
        "POST /import-file{path:path}",
        _import_file,
        "Write a notebook or file",
        name="import",
        needs=_EDIT,
        from_headers=ANNOUNCED,
        errors=(404, 409, 507),
    ),
    _FILES(
        "GET {path:path}",
        _read_file,
        "Read a file",
        name="read",
        needs=_READ,
        content_type=OCTETS,
        statuses=(200, 206),
        from_headers=HEADERS,
        errors=(404, 412, 416),
    ),
)
