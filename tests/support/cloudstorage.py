"""A bucket of Google Cloud Storage on loopback: the part of its JSON API that Hadoop's connector uses. State in memory, one lock.

After https://cloud.google.com/storage/docs/json_api: generations and preconditions, uploads in one request and resumable ones,
moves, batches, listings in short pages, tokens for a service account's signed assertion. A resumable upload's preconditions count
when it begins and when it ends. No compositions, rewrites, folders or versions.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.faultyproxy import read_body

BUCKET, EMAIL, KEY_ID, REFRESH = "box", "writer@project.iam.gserviceaccount.com", "key-1", "refresh"
PAGE = 7  # entries of a listing
_PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)
KEY = _PRIVATE.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()  # fmt: skip
_TIME = "2026-01-01T00:00:00.000Z"  # of the bucket
_JSON = {"Content-Type": "application/json; charset=UTF-8"}
_REASONS = {400: "invalid", 401: "authError", 403: "forbidden", 404: "notFound", 412: "conditionNotMet"}
_MESSAGES = {401: "Invalid Credentials", 412: "At least one of the pre-conditions you specified did not hold."}


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # noqa: PLW2901
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> str:
    """As the API writes it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[crc & 0xFF ^ byte]
    return base64.b64encode((crc ^ 0xFFFFFFFF).to_bytes(4, "big")).decode()


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status, self.message = status, message or _MESSAGES.get(status, _REASONS.get(status, "error"))


class Blob(NamedTuple):
    data: bytes
    generation: int
    described: dict[str, Any]  # what its writer says about it


class Upload:
    """A resumable upload. `blob`: the object, once it is there."""

    def __init__(self, name: str, described: dict[str, Any], conditions: dict[str, str]) -> None:
        self.name, self.described, self.conditions = name, described, conditions
        self.data = bytearray()
        self.blob: Blob | None = None


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes = b""


def _answer(value: Any) -> Answer:
    return Answer(200, _JSON, json.dumps(value).encode())


class CloudStorage(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.lock = threading.Lock()
        self._numbers = itertools.count(1_700_000_000_000_000)
        self.blobs: dict[str, Blob] = {}
        self.uploads: dict[str, Upload] = {}
        self.tokens: set[str] = set()
        self.refuse = ""  # moves to names that have it fail

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def names(self, top: str) -> list[str]:
        """The files below a directory."""
        with self.lock:
            return sorted(name for name in self.blobs if name.startswith(f"{top}/") and not name.endswith("/"))

    # --- requests, with the lock ---

    def token(self, form: dict[str, str]) -> Answer:
        """Returns a token for an assertion that the account's key has signed, or for the refresh token."""
        if form.get("grant_type") == "refresh_token":
            granted = form.get("refresh_token") == REFRESH
        else:
            granted = _is_signed(form.get("assertion", ""))
        if not granted:
            return Answer(400, _JSON, json.dumps({"error": "invalid_grant", "error_description": "Invalid JWT"}).encode())
        token = f"token-{next(self._numbers)}"
        self.tokens.add(token)
        return _answer({"access_token": token, "expires_in": 3600, "token_type": "Bearer"})

    def insert(self, name: str, data: bytes, described: dict[str, Any], conditions: dict[str, str]) -> Blob:
        self._check(self.blobs.get(name), conditions)
        blob = self.blobs[name] = Blob(data, next(self._numbers), described)
        return blob

    def begin(self, name: str, described: dict[str, Any], conditions: dict[str, str], host: str) -> Answer:
        self._check(self.blobs.get(name), conditions)
        number = str(next(self._numbers))
        self.uploads[number] = Upload(name, described, conditions)
        return Answer(200, {"Location": f"http://{host}/upload/storage/v1/b/{BUCKET}/o?uploadType=resumable&upload_id={number}"})

    def proceed(self, number: str, content_range: str, body: bytes) -> Answer:
        """A part of an upload, or the question how much has come."""
        upload = self.uploads.get(number)
        if upload is None:
            raise Refused(404)
        span, _, total = content_range.removeprefix("bytes ").partition("/")
        if upload.blob is None and span != "*":
            start = int(span.partition("-")[0])
            if start > len(upload.data):
                raise Refused(400)
            upload.data += body[len(upload.data) - start :]
        if upload.blob is None and total == str(len(upload.data)):
            upload.blob = self.insert(upload.name, bytes(upload.data), upload.described, upload.conditions)
        if upload.blob is not None:
            return self.describe(upload.name, upload.blob)
        return Answer(308, {"Range": f"bytes=0-{len(upload.data) - 1}"} if upload.data else {})

    def move(self, source: str, name: str, conditions: dict[str, str]) -> Answer:
        if self.refuse and self.refuse in name:
            raise Refused(403)
        blob = self._blob(source)
        if conditions.get("ifSourceGenerationMatch", str(blob.generation)) != str(blob.generation):
            raise Refused(412)
        moved = self.insert(name, blob.data, blob.described, conditions)
        del self.blobs[source]
        return self.describe(name, moved)

    def delete(self, name: str, conditions: dict[str, str]) -> Answer:
        blob = self._blob(name)
        self._check(blob, conditions)
        del self.blobs[name]
        return Answer(204, {})

    def get(self, name: str, query: dict[str, str], wanted: str) -> Answer:
        blob = self._blob(name)
        self._check(blob, query)
        if query.get("generation", str(blob.generation)) != str(blob.generation):
            raise Refused(404)
        if query.get("alt") != "media":
            return self.describe(name, blob)
        start, _, end = wanted.removeprefix("bytes=").partition("-")
        headers = {"Content-Type": "application/octet-stream", "x-goog-generation": str(blob.generation)}
        if not wanted:
            return Answer(200, headers, blob.data)
        first = int(start) if start else max(0, len(blob.data) - int(end))
        last = min(int(end) if start and end else len(blob.data), len(blob.data) - 1)
        if first >= len(blob.data):
            raise Refused(416)
        return Answer(206, headers | {"Content-Range": f"bytes {first}-{last}/{len(blob.data)}"}, blob.data[first : last + 1])

    def list_blobs(self, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        start, after = query.get("startOffset", ""), base64.b64decode(query.get("pageToken", "")).decode()
        trailing = query.get("includeTrailingDelimiter") == "true"
        found: dict[str, bool] = {}  # an entry -> whether it is an object
        for name in sorted(self.blobs):
            if not name.startswith(prefix) or name < start:
                continue
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            if cut < 0 or (trailing and cut == len(name) - 1):
                found[name] = True
            if cut >= 0:
                found.setdefault(name[: cut + 1], False)
        entries = [entry for entry in found if entry > after]
        page = entries[: min(PAGE, int(query.get("maxResults", PAGE)))]
        prefixes = {name[: name.find(delimiter, len(prefix)) + 1] for name in self.blobs if delimiter and name.startswith(prefix)}
        value: dict[str, Any] = {"kind": "storage#objects"}
        if items := [self._resource(entry, self.blobs[entry]) for entry in page if found[entry]]:
            value["items"] = items
        if cuts := [entry for entry in page if entry in prefixes]:
            value["prefixes"] = cuts
        if len(page) < len(entries):
            value["nextPageToken"] = base64.b64encode(page[-1].encode()).decode()
        return _answer(value)

    def describe(self, name: str, blob: Blob) -> Answer:
        return _answer(self._resource(name, blob))

    # --- parts of them ---

    def _blob(self, name: str) -> Blob:
        try:
            return self.blobs[name]
        except KeyError:
            raise Refused(404, f"No such object: {BUCKET}/{name}") from None

    def _check(self, blob: Blob | None, conditions: dict[str, str]) -> None:
        wanted = conditions.get("ifGenerationMatch")
        if wanted is not None and wanted != str(blob.generation if blob else 0):
            raise Refused(412)

    def _resource(self, name: str, blob: Blob) -> dict[str, Any]:
        time = datetime.fromtimestamp(blob.generation / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {
            "contentType": "application/octet-stream", **blob.described, "kind": "storage#object", "bucket": BUCKET, "name": name,
            "id": f"{BUCKET}/{name}/{blob.generation}", "generation": str(blob.generation), "metageneration": "1",
            "size": str(len(blob.data)), "updated": time, "timeCreated": time, "crc32c": crc32c(blob.data),
            "md5Hash": base64.b64encode(hashlib.md5(blob.data, usedforsecurity=False).digest()).decode(),
            "storageClass": "STANDARD", "etag": str(blob.generation),
        }  # fmt: skip

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no error here."""


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _is_signed(assertion: str) -> bool:
    head, _, rest = assertion.partition(".")
    claims, _, signature = rest.partition(".")
    try:
        _PRIVATE.public_key().verify(_decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        return bool(json.loads(_decoded(claims))["iss"] == EMAIL and json.loads(_decoded(head))["kid"] == KEY_ID)
    except (InvalidSignature, ValueError, KeyError):
        return False


def _parts(content_type: str, body: bytes) -> list[Any]:
    message = message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    return list(message.get_payload())


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CloudStorage

    def _serve(self) -> None:
        body = read_body(self)
        answer = self._attempt(self.command, self.path, {key.lower(): value for key, value in self.headers.items()}, body)
        self.send_response_only(answer.status)
        for key, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _attempt(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        url = urlsplit(path)
        query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        try:
            if url.path == "/token":
                with self.server.lock:
                    return self.server.token({key: values[0] for key, values in parse_qs(body.decode()).items()})
            if url.path.startswith("/batch"):
                return self._batch(headers, body)  # its parts have the token
            if headers.get("authorization", "").removeprefix("Bearer ") not in self.server.tokens:
                raise Refused(401)  # noqa: TRY301
            with self.server.lock:
                return self._answer(method, [unquote(part) for part in url.path.split("/")[1:]], query, headers, body)
        except Refused as error:
            reason = {"message": error.message, "domain": "global", "reason": _REASONS.get(error.status, "error")}
            text = {"error": {"code": error.status, "message": error.message, "errors": [reason]}}
            return Answer(error.status, _JSON, json.dumps(text).encode())

    def _batch(self, headers: dict[str, str], body: bytes) -> Answer:
        found = b""
        for part in _parts(headers["content-type"], body):
            line, _, rest = part.get_payload(decode=True).partition(b"\r\n")
            method, path, *_ = line.decode().split(" ")
            given = {key.lower(): value for key, value in message_from_bytes(rest).items()}
            answer = self._attempt(method, path, headers | given, b"")
            lines = [
                "--batch", "Content-Type: application/http", f"Content-ID: response-{part['Content-ID']}", "",
                f"HTTP/1.1 {answer.status} {'OK' if answer.status < 300 else 'Error'}",
                *(f"{key}: {value}" for key, value in answer.headers.items()), f"Content-Length: {len(answer.body)}", "", "",
            ]  # fmt: skip
            found += "\r\n".join(lines).encode() + answer.body + b"\r\n"
        return Answer(200, {"Content-Type": "multipart/mixed; boundary=batch"}, found + b"--batch--\r\n")

    def _answer(  # noqa: PLR0911 - a table of requests
        self, method: str, parts: list[str], query: dict[str, str], headers: dict[str, str], body: bytes
    ) -> Answer:
        store, upload = self.server, parts[0] == "upload"
        _, _, _, bucket, *rest = parts[1:] if parts[0] in ("upload", "download") else parts
        if bucket != BUCKET:
            raise Refused(404, "The specified bucket does not exist.")
        match method, rest:
            case "GET", ["storageLayout"]:
                return _answer({"kind": "storage#storageLayout", "bucket": bucket, "locationType": "region"})
            case "GET", []:
                return _answer(
                    {
                        "kind": "storage#bucket",
                        "id": bucket,
                        "name": bucket,
                        "location": "EU",
                        "timeCreated": _TIME,
                        "updated": _TIME,
                    }
                )
            case "GET", ["o"]:
                return store.list_blobs(query)
            case "GET", ["o", name]:
                return store.get(name, query, headers.get("range", ""))
            case "DELETE", ["o", name]:
                return store.delete(name, query)
            case "POST", ["o", source, "moveTo", "o", name]:
                return store.move(source, name, query)
            case "PUT", ["o"] if upload:
                return store.proceed(query["upload_id"], headers["content-range"], body)
            case "POST", ["o"] if upload and query["uploadType"] == "resumable":
                described = json.loads(body or b"{}")
                return store.begin(query.get("name") or described["name"], described, query, headers["host"])
            case "POST", ["o"] if upload and query["uploadType"] == "multipart":
                described, data = (part.get_payload(decode=True) for part in _parts(headers["content-type"], body))
                described = json.loads(described)
                name = query.get("name") or described["name"]
                return store.describe(name, store.insert(name, data, described, query))
        raise Refused(400, f"{method} of {rest} is not offered here")

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve


@contextlib.contextmanager
def serve() -> Iterator[CloudStorage]:
    """Serves one bucket until the end."""
    with CloudStorage() as store:
        thread = threading.Thread(target=store.serve_forever, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            store.shutdown()
            thread.join()
