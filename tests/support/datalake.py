"""An ADLS Gen2 account on loopback: the part of its REST API (`dfs`) that Hadoop's driver uses. State in memory, one lock.

After https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2: status and error codes, ETags that a rename keeps,
conditional headers, signatures by the account's key, SAS tokens. Listings come in short pages: clients must continue.
Paths are `/ACCOUNT/FILESYSTEM/PATH`, as of a store that is reached by its address. No leases, ACLs or several owners.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

ACCOUNT, FILESYSTEM, SAS = "lake", "box", "sv=2024-08-04&sig=loopback"
KEY = base64.b64encode(b"the key of the account").decode()
PAGE = 7  # entries of a listing
_SIGNED = (
    "content-encoding", "content-language", "content-length", "content-md5", "content-type", "", "if-modified-since", "if-match",
    "if-none-match", "if-unmodified-since", "range",
)  # fmt: skip


class Refused(Exception):
    """An answer that is an error: its status, its code, and headers."""

    def __init__(self, status: int, code: str, **headers: str) -> None:
        super().__init__(code)
        self.status, self.code, self.headers = status, code, headers


class Node:
    """A file, or a directory if `data` is None. `parts`: what was appended and not flushed, by position."""

    def __init__(self, data: bytes | None, etag: str, transaction: str = "") -> None:
        self.data, self.etag, self.transaction = data, etag, transaction
        self.parts: dict[int, bytes] = {}
        self.modified = formatdate(usegmt=True)

    @property
    def kind(self) -> str:
        return "directory" if self.data is None else "file"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes = b""


class DataLake(ThreadingHTTPServer):
    """`hierarchical`: whether the account has a hierarchical namespace. Names are paths without a slash at their ends; "" is the
    root."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *, hierarchical: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.hierarchical = hierarchical
        self.lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.nodes: dict[str, Node] = {"": Node(None, self._etag())}
        self.refuse = ""  # renames to names that have it fail

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def names(self, top: str) -> list[str]:
        """The files below a directory."""
        with self.lock:
            return sorted(name for name, node in self.nodes.items() if name.startswith(f"{top}/") and node.data is not None)

    def _etag(self) -> str:
        return f'"0x8D{next(self._numbers):012X}"'

    # --- requests, with the lock ---

    def status(self, name: str) -> Answer:
        return Answer(200, self._headers(self._node(name)))

    def create(self, name: str, kind: str, headers: dict[str, str]) -> Answer:
        node = self.nodes.get(name)
        if node and (headers.get("if-none-match") == "*" or node.kind != kind):
            raise Refused(409, "PathAlreadyExists", **{"x-ms-existing-resource-type": node.kind})
        self._check_match(node, headers)
        if node is None or kind == "file":
            self._make_parents(name)
            node = Node(b"" if kind == "file" else None, self._etag(), headers.get("x-ms-client-transaction-id", ""))
            self.nodes[name] = node
        return Answer(201, self._headers(node, length=False))

    def rename(self, source: str, name: str, headers: dict[str, str]) -> Answer:
        node = self.nodes.get(source)
        if node is None:
            raise Refused(404, "SourcePathNotFound")
        if self.refuse and self.refuse in name:
            raise Refused(403, "AuthorizationPermissionMismatch")
        if name.startswith(f"{source}/"):
            raise Refused(409, "InvalidRenameSourcePath")
        existing = self.nodes.get(name)
        if existing and headers.get("if-none-match") == "*":
            raise Refused(409, "PathAlreadyExists", **{"x-ms-existing-resource-type": existing.kind})
        if name.rpartition("/")[0] not in self.nodes:
            raise Refused(404, "RenameDestinationParentPathNotFound")
        node.transaction = headers.get("x-ms-client-transaction-id", node.transaction)
        for each in [each for each in self.nodes if each == source or each.startswith(f"{source}/")]:
            self.nodes[name + each.removeprefix(source)] = self.nodes.pop(each)
        return Answer(201, {})

    def append(self, name: str, query: dict[str, str], body: bytes) -> Answer:
        node, position = self._file(name), int(query["position"])
        assert node.data is not None
        if position < len(node.data):
            raise Refused(400, "InvalidAppendPosition")
        node.parts[position] = body
        if query.get("flush") == "true":
            return self.flush(name, {"position": str(position + len(body)), **query})
        return Answer(202, {})

    def flush(self, name: str, query: dict[str, str]) -> Answer:
        node, length = self._file(name), int(query["position"])
        assert node.data is not None
        data = bytearray(node.data)
        for position in sorted(node.parts):
            if position == len(data):
                data += node.parts[position]
        if len(data) != length:
            raise Refused(400, "InvalidFlushPosition")
        if node.parts:
            node.data, node.parts, node.etag, node.modified = bytes(data), {}, self._etag(), formatdate(usegmt=True)
        return Answer(200, self._headers(node, length=False))

    def read(self, name: str, headers: dict[str, str]) -> Answer:
        node = self._file(name)
        self._check_match(node, headers)
        assert node.data is not None
        start, _, end = headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")
        if int(start) >= len(node.data) > 0:
            raise Refused(416, "InvalidRange")
        body = node.data[int(start) : int(end) + 1 if end else None]
        return Answer(206 if "range" in headers else 200, self._headers(node, length=False), body)

    def list_paths(self, query: dict[str, str]) -> Answer:
        top = query.get("directory", "").strip("/")
        if self._node(top).data is not None:
            raise Refused(409, "PathConflict")
        start = f"{top}/" if top else ""
        after = base64.b64decode(query.get("continuation", "")).decode()
        found = sorted(name for name in self.nodes if name and name.startswith(start) and name > after)
        if query.get("recursive") != "true":
            found = [name for name in found if "/" not in name.removeprefix(start)]
        page = found[: min(PAGE, int(query.get("maxResults", PAGE)))]
        headers = {"Content-Type": "application/json;charset=utf-8", "Transfer-Encoding": "chunked"}
        if len(page) < len(found):
            headers["x-ms-continuation"] = base64.b64encode(page[-1].encode()).decode()
        body = json.dumps({"paths": [self._entry(name) for name in page]}).encode()
        return Answer(200, headers, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    def delete(self, name: str, query: dict[str, str], headers: dict[str, str]) -> Answer:
        node = self._node(name)
        self._check_match(node, headers)
        below = [each for each in self.nodes if each.startswith(f"{name}/")]
        if below and query.get("recursive") != "true":
            raise Refused(409, "DirectoryNotEmpty")
        for each in (name, *below):
            del self.nodes[each]
        return Answer(200, {})

    # --- parts of them ---

    def _node(self, name: str) -> Node:
        try:
            return self.nodes[name]
        except KeyError:
            raise Refused(404, "PathNotFound") from None

    def _file(self, name: str) -> Node:
        node = self._node(name)
        if node.data is None:
            raise Refused(409, "ResourceTypeMismatch")
        return node

    def _check_match(self, node: Node | None, headers: dict[str, str]) -> None:
        wanted = headers.get("if-match", "*")
        if wanted != "*" and (node is None or node.etag.strip('"') != wanted.strip('"')):
            raise Refused(412, "ConditionNotMet")

    def _make_parents(self, name: str) -> None:
        parent = ""
        for part in name.split("/")[:-1]:
            parent = f"{parent}/{part}".strip("/")
            if self.nodes.setdefault(parent, Node(None, self._etag())).data is not None:
                raise Refused(409, "PathConflict")

    def _headers(self, node: Node, *, length: bool = True) -> dict[str, str]:
        sized = {"Content-Length": str(len(node.data or b""))} if length else {}
        return {
            "ETag": node.etag, "Last-Modified": node.modified, "x-ms-resource-type": node.kind, "x-ms-owner": "$superuser",
            "x-ms-group": "$superuser", "x-ms-permissions": "rwxr-x---", "x-ms-client-transaction-id": node.transaction, **sized,
        }  # fmt: skip

    def _entry(self, name: str) -> dict[str, str]:
        node = self.nodes[name]
        found = {
            "name": name, "contentLength": str(len(node.data or b"")), "etag": node.etag.strip('"'), "owner": "$superuser",
            "lastModified": node.modified, "group": "$superuser", "permissions": "rwxr-x---",
        }  # fmt: skip
        return found | ({"isDirectory": "true"} if node.data is None else {})

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no error here."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: DataLake

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self._answer(body)
        except Refused as error:
            text = json.dumps({"error": {"code": error.code, "message": f"{error.code} at {self.path}"}}).encode()
            answer = Answer(
                error.status, {"x-ms-error-code": error.code, "Content-Type": "application/json", **error.headers}, text
            )
        self.send_response_only(answer.status)
        sized = {} if "Transfer-Encoding" in answer.headers else {"Content-Length": str(len(answer.body))}
        for key, value in {"x-ms-request-id": "1", **sized, **answer.headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _answer(self, body: bytes) -> Answer:  # noqa: PLR0911 - a table of requests
        url, lake = urlsplit(self.path), self.server
        headers = {key.lower(): value for key, value in self.headers.items()}
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self._authenticate(url.path, url.query, headers)
        _, account, filesystem, *rest = unquote(url.path).split("/")
        if (account, filesystem) != (ACCOUNT, FILESYSTEM):
            raise Refused(404, "FilesystemNotFound")
        name, method = "/".join(rest).strip("/"), headers.get("x-http-method-override", self.command)
        with lake.lock:
            match method, query.get("action"), query.get("resource"):
                case "HEAD", "getAccessControl", _ if not lake.hierarchical:
                    raise Refused(400, "HierarchicalNamespaceNotEnabled")
                case "HEAD", _, _:
                    return lake.status(name)
                case "GET", _, "filesystem":
                    return lake.list_paths(query)
                case "GET", _, _:
                    return lake.read(name, headers)
                case "PUT", _, _ if "x-ms-rename-source" in headers:
                    source = unquote(urlsplit(headers["x-ms-rename-source"]).path).removeprefix(f"/{FILESYSTEM}/").strip("/")
                    return lake.rename(source, name, headers)
                case "PUT", _, ("file" | "directory") as kind:
                    return lake.create(name, kind, headers)
                case "PATCH", "append", _:
                    return lake.append(name, query, body)
                case "PATCH", "flush", _:
                    return lake.flush(name, query)
                case "DELETE", _, _:
                    return lake.delete(name, query, headers)
        raise Refused(400, "UnsupportedRestVersion")

    def _authenticate(self, path: str, query: str, headers: dict[str, str]) -> None:
        """By the account's key or the SAS token. Raises Refused."""
        given = parse_qs(query)
        if "sig" in given:
            if any(given.get(key) != values for key, values in parse_qs(SAS).items()):
                raise Refused(403, "AuthenticationFailed")
            return
        signed = {**headers, "content-length": "" if headers.get("content-length", "0") == "0" else headers["content-length"]}
        lines = [self.command, *(signed.get(key, "") for key in _SIGNED)]
        lines += [f"{key}:{headers[key]}" for key in sorted(headers) if key.startswith("x-ms-")]
        lines.append(f"/{ACCOUNT}{path}")
        lines += [f"{key.lower()}:{','.join(sorted(given[key]))}" for key in sorted(given, key=str.lower)]
        mac = hmac.new(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256).digest()
        if headers.get("authorization") != f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}":
            raise Refused(403, "AuthenticationFailed")

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = _serve


@contextlib.contextmanager
def serve(*, hierarchical: bool = True) -> Iterator[DataLake]:
    """Serves one file system until the end."""
    with DataLake(hierarchical=hierarchical) as lake:
        thread = threading.Thread(target=lake.serve_forever, daemon=True)
        thread.start()
        try:
            yield lake
        finally:
            lake.shutdown()
            thread.join()
