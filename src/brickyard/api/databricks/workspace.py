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
from brickyard.features.files.formats import MAX_NOTEBOOK, Exported, Format
from brickyard.features.files.notebooks import Language
from brickyard.features.files.workspace import WorkspaceObject, WorkspaceService, Written

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
    """`expected_etag` is ours: `etag` of an export or an import. If the notebook's content is another one by now, and not the new
    one either, the import is refused."""

    content: str = ""
    format: Format = Format.SOURCE
    language: Language | None = None
    overwrite: bool = False
    expected_etag: str = ""


class ExportObject(WorkspacePath, frozen=True, kw_only=True):
    format: Format = Format.SOURCE
    direct_download: bool = False


class ExportResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`content` is base64. `etag` is ours, of a notebook: what `expected_etag` of an import takes."""

    content: str
    file_type: str
    etag: str = ""


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


class ImportResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was written. `etag` as in an export."""

    object_id: int
    etag: str = ""


class ReadVersion(WorkspacePath, frozen=True, kw_only=True):
    version_id: str


class NotebookVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a notebook contained from `saved_at` to `replaced_at`, in epoch milliseconds. Without `saved_by`, a program on a
    cluster wrote it, or it is not known who did. `size` in bytes."""

    version_id: str
    saved_at: int
    replaced_at: int
    size: int
    saved_by: str = ""


class ListVersionsResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Newest first."""

    versions: list[NotebookVersion] = []


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
    written = await workspace.import_content(
        caller, request.path, request.content, format=request.format, language=request.language, overwrite=request.overwrite,
        expected_etag=request.expected_etag,
    )  # fmt: skip
    return _imported(written)


def _imported(written: Written) -> ImportResponse:
    return ImportResponse(object_id=written.object_id, etag=written.etag)


async def _import_form(ctx: ApiContext, caller: Caller, parts: AsyncIterator[tuple[str, bytes]]) -> ImportResponse:
    return _imported(await ctx.services.workspace.import_form(caller, parts))


async def _import_file(
    workspace: WorkspaceService, caller: Caller, request: ImportFile, body: AsyncIterable[bytes]
) -> ImportResponse:
    announced = announces_content(request.content_length, request.user_agent)
    return _imported(await workspace.import_file(caller, request.path, body, overwrite=request.overwrite, announced=announced))


async def _read_file(workspace: WorkspaceService, caller: Caller, request: ReadFile) -> Stream:
    file = await workspace.open(caller, request.path)
    return download(file, range=request.range, if_unmodified_since=request.if_unmodified_since, if_range=request.if_range)


async def _export(workspace: WorkspaceService, caller: Caller, request: ExportObject) -> ExportResponse | Reply | Stream:
    found = await workspace.export(caller, request.path, format=request.format)
    if isinstance(found.content, bytes):
        if request.direct_download:
            return Reply(body=found.content, content_type=OCTETS)
        return _exported(found, found.content)
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
    return _exported(found, data)


def _exported(found: Exported, content: bytes) -> ExportResponse:
    return ExportResponse(content=base64.b64encode(content).decode(), file_type=found.file_type, etag=found.etag)


async def _list_versions(workspace: WorkspaceService, caller: Caller, request: WorkspacePath) -> ListVersionsResponse:
    versions = [
        NotebookVersion(
            version_id=version_id, saved_at=each.saved_ms, replaced_at=each.kept_ms, size=each.size, saved_by=each.saved_by
        )
        for version_id, each in await workspace.versions(caller, request.path)
    ]
    return ListVersionsResponse(versions=versions)


async def _export_version(workspace: WorkspaceService, caller: Caller, request: ReadVersion) -> ExportResponse:
    found = await workspace.version(caller, request.path, request.version_id)
    assert isinstance(found.content, bytes)  # noqa: S101 - of a notebook
    return _exported(found, found.content)


_READ, _EDIT, _MANAGE = (
    Need(each, ObjectKind.WORKSPACE_PATH, "path") for each in (Permission.CAN_READ, Permission.CAN_EDIT, Permission.CAN_MANAGE)
)

_WORKSPACE = Group("workspace", lambda ctx: ctx.services.workspace, "/api/2.0/workspace", errors=(404,))
_VERSIONS = Group("workspace_versions", lambda ctx: ctx.services.workspace, "/api/2.1/workspace/versions", errors=(404,))
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
        errors=(404, 409, 507),
    ),
    _WORKSPACE(
        "PUT /user/{id}/homefolder",
        _make_home,
        "Create a user's home",
        name="make_home",
        needs=Need(Permission.CAN_MANAGE, ObjectKind.WORKSPACE_PATH, "id"),
    ),
    _WORKSPACE("GET /export", _export, "Read a notebook or file", needs=_READ, other_content_type=OCTETS),
    _VERSIONS("GET /list", _list_versions, "Earlier contents of a notebook", needs=_READ),
    _VERSIONS("GET /export", _export_version, "Read an earlier content of a notebook", needs=_READ),
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
