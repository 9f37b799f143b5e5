"""Volumes (`/api/2.1/unity-catalog/volumes`), and the Files API for what is in them (`/api/2.0/fs`)."""

from __future__ import annotations

from collections.abc import AsyncIterable

import msgspec

from brickyard.api.databricks.filestreams import ANNOUNCED, HEADERS, NO_CONTENT, OCTETS, announces_content, download
from brickyard.api.databricks.nametokens import name_after, token_after
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import Wire
from brickyard.features.files.volumenames import Volume
from brickyard.features.files.volumes import PAGE, VolumeService


class FilePath(Wire, frozen=True, kw_only=True):
    file_path: str


class DownloadFile(FilePath, frozen=True, kw_only=True):
    range: str = ""
    if_unmodified_since: str = ""
    if_range: str = ""


class UploadFile(FilePath, frozen=True, kw_only=True):
    """Databricks overwrites unless told otherwise; Terraform and the Go SDK rely on it."""

    overwrite: bool = True
    content_length: str = ""
    user_agent: str = ""


class DirectoryPath(Wire, frozen=True, kw_only=True):
    directory_path: str


class ListDirectory(DirectoryPath, frozen=True, kw_only=True):
    page_size: int = 0
    page_token: str = ""


class DirectoryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Size in bytes, time in epoch milliseconds."""

    path: str
    name: str
    is_directory: bool
    last_modified: int
    file_size: int | None = None


class ListDirectoryResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    contents: list[DirectoryEntry]
    next_page_token: str = ""


class VolumeName(Wire, frozen=True, kw_only=True):
    name: str


class CreateVolume(Wire, frozen=True, kw_only=True):
    catalog_name: str
    schema_name: str
    name: str
    volume_type: str
    comment: str = ""
    storage_location: str = ""

    @property
    def schema(self) -> str:
        return f"{self.catalog_name}.{self.schema_name}"


class UpdateVolume(VolumeName, frozen=True, kw_only=True):
    new_name: str = ""
    comment: str | None = None
    owner: str | None = None


class ListVolumes(Wire, frozen=True, kw_only=True):
    catalog_name: str
    schema_name: str


class VolumeInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    catalog_name: str
    schema_name: str
    name: str
    full_name: str
    volume_type: str
    volume_id: str
    storage_location: str
    updated_at: int
    comment: str = ""


class ListVolumesResponse(msgspec.Struct, frozen=True, kw_only=True):
    volumes: list[VolumeInfo]


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _download(volumes: VolumeService, caller: Caller, request: DownloadFile) -> Stream:
    file = await volumes.open(caller, request.file_path)
    return download(file, range=request.range, if_unmodified_since=request.if_unmodified_since, if_range=request.if_range)


async def _upload(volumes: VolumeService, caller: Caller, request: UploadFile, body: AsyncIterable[bytes]) -> Reply:
    announced = announces_content(request.content_length, request.user_agent)
    await volumes.upload(caller, request.file_path, body, overwrite=request.overwrite, announced=announced)
    return NO_CONTENT


async def _delete(volumes: VolumeService, caller: Caller, request: FilePath) -> Reply:
    await volumes.delete_file(caller, request.file_path)
    return NO_CONTENT


async def _make_directory(volumes: VolumeService, caller: Caller, request: DirectoryPath, body: AsyncIterable[bytes]) -> Reply:
    await volumes.make_directory(caller, request.directory_path)
    async for _ in body:
        pass
    return NO_CONTENT


async def _delete_directory(volumes: VolumeService, caller: Caller, request: DirectoryPath) -> Reply:
    await volumes.delete_directory(caller, request.directory_path)
    return NO_CONTENT


async def _list_directory(volumes: VolumeService, caller: Caller, request: ListDirectory) -> ListDirectoryResponse:
    if request.page_size < 0:
        raise InvalidParameterValue(f"page_size is {request.page_size}; it must not be negative.")
    entries, after = await volumes.list_directory(
        caller, request.directory_path, after=name_after(request.page_token), limit=min(request.page_size or PAGE, PAGE)
    )
    contents = [
        DirectoryEntry(
            path="/".join(("", "Volumes", *entry.parts)),
            name=entry.parts[-1],
            is_directory=entry.is_dir,
            last_modified=entry.modified_ms,
            file_size=None if entry.is_dir else entry.size,
        )
        for entry in entries
    ]
    return ListDirectoryResponse(contents=contents, next_page_token=token_after(after))


# ── volumes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _create_volume(volumes: VolumeService, caller: Caller, request: CreateVolume) -> VolumeInfo:
    if request.volume_type != "MANAGED" or request.storage_location:
        raise InvalidParameterValue(
            "Only volumes with volume_type MANAGED and without storage_location can be made: their files are in the workspace's "
            "storage."
        )
    made = await volumes.create(caller, request.catalog_name, request.schema_name, request.name, comment=request.comment)
    return _info(made)


async def _read_volume(volumes: VolumeService, caller: Caller, request: VolumeName) -> VolumeInfo:
    return _info(await volumes.read(caller, request.name))


async def _list_volumes(volumes: VolumeService, caller: Caller, request: ListVolumes) -> ListVolumesResponse:
    found = await volumes.of_schema(caller, request.catalog_name, request.schema_name)
    return ListVolumesResponse(volumes=[_info(volume) for volume in found])


async def _update_volume(volumes: VolumeService, caller: Caller, request: UpdateVolume) -> VolumeInfo:
    if request.owner:
        raise InvalidParameterValue("owner of a volume is not supported: a volume belongs to who made it. Leave it out.")
    if not request.new_name and request.comment is None:
        raise InvalidParameterValue("Missing required field: new_name or comment")
    return _info(await volumes.update(caller, request.name, new_name=request.new_name, comment=request.comment))


async def _delete_volume(volumes: VolumeService, caller: Caller, request: VolumeName) -> None:
    await volumes.delete(caller, request.name)


def _info(volume: Volume) -> VolumeInfo:
    catalog, schema, name = volume.parts
    return VolumeInfo(
        catalog_name=catalog,
        schema_name=schema,
        name=name,
        full_name=volume.full_name,
        volume_type="MANAGED",
        volume_id=volume.volume_id,
        storage_location="/".join(("dbfs:/Volumes", *volume.parts)),
        updated_at=volume.modified_ms,
        comment=volume.comment,
    )


_READ, _WRITE = (Need(each, ObjectKind.VOLUME_PATH, "file_path") for each in (Permission.READ_VOLUME, Permission.WRITE_VOLUME))
_SEE, _CHANGE = (
    Need(each, ObjectKind.VOLUME_PATH, "directory_path") for each in (Permission.READ_VOLUME, Permission.WRITE_VOLUME)
)
_MANAGE = Need(Permission.MANAGE, ObjectKind.VOLUME, "name")
_WRITE_ERRORS = (404, 409, 507)

_FILES = Group("files", lambda ctx: ctx.services.volumes, "/api/2.0/fs/files{file_path:path}", errors=(404,))
_DIRECTORIES = Group("files", lambda ctx: ctx.services.volumes, "/api/2.0/fs/directories{directory_path:path}", errors=(404,))
_VOLUMES = Group("volumes", lambda ctx: ctx.services.volumes, "/api/2.1/unity-catalog/volumes", errors=(404,))
OPERATIONS: tuple[Operation, ...] = (
    _FILES(
        "GET",
        _download,
        "Read a file",
        name="download",
        needs=_READ,
        content_type=OCTETS,
        statuses=(200, 206),
        from_headers=HEADERS,
        errors=(404, 412, 416),
    ),
    _FILES(
        "PUT", _upload, "Write a file", name="upload", needs=_WRITE, statuses=(204,), from_headers=ANNOUNCED, errors=_WRITE_ERRORS
    ),
    _FILES("DELETE", _delete, "Remove a file", name="delete", needs=_WRITE, statuses=(204,)),
    _DIRECTORIES("GET", _list_directory, "Entries of a directory", name="list_directory", needs=_SEE),
    _DIRECTORIES(
        "PUT",
        _make_directory,
        "Create a directory and its parents",
        name="make_directory",
        needs=_CHANGE,
        statuses=(204,),
        errors=_WRITE_ERRORS,
    ),
    _DIRECTORIES(
        "DELETE", _delete_directory, "Remove an empty directory", name="delete_directory", needs=_CHANGE, statuses=(204,)
    ),
    _VOLUMES(
        "POST", _create_volume, "Make a volume", name="create", needs=Need(Permission.CREATE_VOLUME, ObjectKind.SCHEMA, "schema")
    ),
    _VOLUMES(
        "GET /{name}",
        _read_volume,
        "Look at a volume",
        name="read",
        needs=Need(Permission.READ_VOLUME, ObjectKind.VOLUME, "name"),
    ),
    _VOLUMES(
        "GET", _list_volumes, "Volumes of a schema", name="list", needs=Need(Permission.READ_VOLUME, ObjectKind.VOLUME, EVERY)
    ),
    _VOLUMES("PATCH /{name}", _update_volume, "Rename a volume, or change its comment", name="update", needs=_MANAGE),
    _VOLUMES("DELETE /{name}", _delete_volume, "Remove a volume and its files", name="delete", needs=_MANAGE),
)
