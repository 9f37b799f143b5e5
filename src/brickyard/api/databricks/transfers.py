"""Large files in volumes: uploads in parts, and presigned URLs (`/api/2.0/fs`), as databricks-sdk `mixins/files.py` uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from brickyard.api.databricks.filestreams import HEADERS, OCTETS, download
from brickyard.api.edge.bodies import joined
from brickyard.api.edge.dialects import PLAIN, Dialect, Failure, Reply, plain_body
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import BODY_LIMIT, Auth, Need, Operation
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue, MalformedRequest
from brickyard.domain.spec import Wire
from brickyard.features.files.parts import Named
from brickyard.features.files.presigned import UrlExpired
from brickyard.features.files.transfers import PRESIGNED, VolumeTransfers


class UploadAction(Wire, frozen=True, kw_only=True):
    file_path: str
    action: str = ""
    overwrite: bool = True
    session_token: str = ""
    upload_type: str = ""


class NamedPart(Wire, frozen=True, kw_only=True):
    part_number: int
    etag: str = ""


class CompletedParts(Wire, frozen=True, kw_only=True):
    """The body of complete-upload."""

    parts: list[NamedPart] = []


class MultipartUpload(msgspec.Struct, frozen=True, kw_only=True):
    session_token: str


class InitiateUploadResponse(msgspec.Struct, frozen=True, kw_only=True):
    multipart_upload: MultipartUpload


class CreatePartUrls(Wire, frozen=True, kw_only=True):
    path: str
    session_token: str
    start_part_number: int
    count: int = 1
    expire_time: str = ""
    base_url: str = ""


class CreateAbortUrl(Wire, frozen=True, kw_only=True):
    path: str
    session_token: str
    expire_time: str = ""
    base_url: str = ""


class CreateDownloadUrl(Wire, frozen=True, kw_only=True):
    path: str
    expire_time: str = ""
    base_url: str = ""


class HeaderToSend(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: str


class PresignedUrl(msgspec.Struct, frozen=True, kw_only=True):
    """`headers` are to be sent with the request."""

    url: str
    headers: list[HeaderToSend] = []


class PartUrl(PresignedUrl, frozen=True, kw_only=True):
    part_number: int


class PartUrls(msgspec.Struct, frozen=True, kw_only=True):
    upload_part_urls: list[PartUrl]


class AbortUrl(msgspec.Struct, frozen=True, kw_only=True):
    abort_upload_url: PresignedUrl


class PresignedFile(Wire, frozen=True, kw_only=True):
    file_path: str
    signature: str
    range: str = ""
    if_unmodified_since: str = ""
    if_range: str = ""


class PresignedPart(Wire, frozen=True, kw_only=True):
    file_path: str
    session_token: str
    part_number: int
    signature: str
    content_range: str = ""
    content_encoding: str = ""


class PresignedAbort(Wire, frozen=True, kw_only=True):
    file_path: str
    session_token: str
    signature: str


async def _act(
    transfers: VolumeTransfers, caller: Caller, request: UploadAction, body: AsyncIterator[bytes]
) -> InitiateUploadResponse | None:
    raw = await joined(body, BODY_LIMIT)
    if request.upload_type not in ("", "multipart"):
        raise InvalidParameterValue(f"field 'upload_type': it is {request.upload_type[:100]!r}; uploads here are multipart.")
    path, token = request.file_path, request.session_token
    match request.action:
        case "initiate-upload":
            made = await transfers.begin(caller, path, overwrite=request.overwrite)
            return InitiateUploadResponse(multipart_upload=MultipartUpload(session_token=made))
        case "complete-upload":
            await transfers.complete(caller, path, token, _named(raw))
        case "abort-upload":
            await transfers.abort(caller, path, token)
        case _:
            raise InvalidParameterValue(
                f"field 'action': it is {request.action[:100]!r}. There are: initiate-upload, complete-upload, abort-upload."
            )
    return None


_decode_parts = msgspec.json.Decoder(CompletedParts).decode


def _named(raw: bytes) -> list[Named]:
    try:
        found = _decode_parts(raw or b"{}")
    except msgspec.ValidationError as error:
        raise InvalidParameterValue(f"The list of parts: {error}.") from error
    except msgspec.DecodeError as error:
        raise MalformedRequest(f"The body is not JSON: {error}.") from error
    return [Named(each.part_number, each.etag) for each in found.parts]


async def _part_urls(transfers: VolumeTransfers, caller: Caller, request: CreatePartUrls) -> PartUrls:
    made = await transfers.part_urls(
        caller,
        request.path,
        request.session_token,
        start=request.start_part_number,
        count=request.count,
        expire_time=request.expire_time,
        base_url=request.base_url,
    )
    return PartUrls(upload_part_urls=[PartUrl(part_number=each.number, url=each.url) for each in made])


async def _abort_url(transfers: VolumeTransfers, caller: Caller, request: CreateAbortUrl) -> AbortUrl:
    url = await transfers.abort_url(
        caller, request.path, request.session_token, expire_time=request.expire_time, base_url=request.base_url
    )
    return AbortUrl(abort_upload_url=PresignedUrl(url=url))


async def _download_url(
    transfers: VolumeTransfers, caller: Caller, request: CreateDownloadUrl, body: AsyncIterator[bytes]
) -> PresignedUrl:
    """Clients send its fields in the query, although it is a POST."""
    async for _ in body:
        pass
    url = await transfers.download_url(caller, request.path, expire_time=request.expire_time, base_url=request.base_url)
    return PresignedUrl(url=url)


async def _put_part(transfers: VolumeTransfers, _caller: Caller, request: PresignedPart, body: AsyncIterator[bytes]) -> Reply:
    for name, value in (("Content-Range", request.content_range), ("Content-Encoding", request.content_encoding)):
        if value and value != "identity":
            raise InvalidParameterValue(f"header '{name}': a part is sent whole and as it is; send it without.")
    etag = await transfers.put_part(request.file_path, request.session_token, request.part_number, request.signature, body)
    return Reply(body=b"{}", headers=(("etag", etag),))


async def _download(transfers: VolumeTransfers, _caller: Caller, request: PresignedFile) -> Stream:
    file = await transfers.open(request.file_path, request.signature)
    return download(file, range=request.range, if_unmodified_since=request.if_unmodified_since, if_range=request.if_range)


async def _abort(transfers: VolumeTransfers, _caller: Caller, request: PresignedAbort) -> None:
    await transfers.abort_presigned(request.file_path, request.session_token, request.signature)


_EXPIRED = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>'


def _presigned(failure: Failure) -> Reply:
    """S3's answer to a URL that has expired, which clients look for to ask for another one; else the plain format."""
    if isinstance(failure.error, UrlExpired):
        return Reply(status=failure.error.http_status, body=_EXPIRED, content_type="application/xml")
    return Reply(status=failure.error.http_status, body=msgspec.json.encode(plain_body(failure)))


_DIALECT = Dialect(name=PLAIN.name, properties=PLAIN.properties, body=plain_body, page=_presigned)
_TRANSFERS = Group("files", lambda ctx: ctx.services.transfers, "/api/2.0/fs", errors=(404,))
# The signature is their credential. A part changes no file: the calls that begin and complete an upload are in the audit log.
_URLS = Group(
    "files",
    lambda ctx: ctx.services.transfers,
    PRESIGNED + "{file_path:path}",
    needs=(),
    auth=Auth.NONE,
    dialect=_DIALECT,
    only_reads=True,
    errors=(400, 403, 404),
)
_WRITE = Need(Permission.WRITE_VOLUME, ObjectKind.VOLUME_PATH, "path")
OPERATIONS: tuple[Operation, ...] = (
    _TRANSFERS(
        "POST /files{file_path:path}",
        _act,
        "Begin, complete or abort an upload in parts",
        name="multipart_upload",
        needs=Need(Permission.WRITE_VOLUME, ObjectKind.VOLUME_PATH, "file_path"),
        errors=(404, 409, 507),
    ),
    _TRANSFERS(
        "POST /create-upload-part-urls",
        _part_urls,
        "URLs for parts of an upload",
        needs=_WRITE,
        with_base_url=True,
        only_reads=True,
    ),
    _TRANSFERS(
        "POST /create-abort-upload-url",
        _abort_url,
        "A URL that aborts an upload",
        needs=_WRITE,
        with_base_url=True,
        only_reads=True,
    ),
    _TRANSFERS(
        "POST /create-download-url",
        _download_url,
        "A URL for reading a file",
        needs=Need(Permission.READ_VOLUME, ObjectKind.VOLUME_PATH, "path"),
        with_base_url=True,
        only_reads=True,
    ),
    _URLS(
        "PUT",
        _put_part,
        "Send a part of an upload",
        name="upload_part",
        from_headers={"content-range": "content_range", "content-encoding": "content_encoding"},
        errors=(400, 403, 404, 507),
    ),
    _URLS(
        "GET",
        _download,
        "Read a file",
        name="download_presigned",
        content_type=OCTETS,
        statuses=(200, 206),
        from_headers=HEADERS,
        errors=(403, 404, 412, 416),
    ),
    _URLS("DELETE", _abort, "Abort an upload", name="abort_presigned"),
)
