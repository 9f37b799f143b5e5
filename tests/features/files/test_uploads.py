"""Uploads wait for their turn, and neither a repeated nor a broken nor a partial one replaces what is there."""

from __future__ import annotations

import io
import itertools
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from brickyard.domain.errors import ApiError, DatabaseAway, RequestLimitExceeded
from brickyard.store.store import Store
from tests.features.files.conftest import Files
from tests.support.edge import edge
from tests.support.patience import PATIENCE_S, until

VOLUME = "/Volumes/main/default/data"
NOTEBOOK = "# Databricks notebook source\nprint(1)\n"
FORM = {"format": "SOURCE", "language": "PYTHON", "overwrite": "true"}


@pytest.fixture
def there(files: Files) -> dict[str, Path]:
    """What uploads replace, by the way that they come."""
    kept = {
        "files": files.volumes / "main" / "default" / "data" / "f",
        "import-file": files.workspace / "Shared" / "f",
        "import": files.workspace / "Shared" / "n",
        "dbfs": files.volumes.parent / "dbfs" / "f",
    }
    for path in kept.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NOTEBOOK)
    return kept


def upload(files: Files, way: str, content: io.BytesIO, *, name: str = "", headers: Any = None) -> requests.Response:
    """As the SDK sends it. Without a name, it replaces what is there."""
    match way:
        case "files":
            url = f"2.0/fs/files{VOLUME}/{name or 'f'}?overwrite=true"
            return files.call("PUT", url, data=content, headers=headers or {})
        case "import-file":
            url = f"2.0/workspace-files/import-file/Shared/{name or 'f'}?overwrite=true"
            return files.call("POST", url, data=content, headers=headers or {})
        case "import":
            form = {**FORM, "path": f"/Shared/{name or 'n'}"}
            return files.call("POST", "2.0/workspace/import", data=form, files={"content": content}, headers=headers or {})
        case _:
            form = {"path": f"/{name or 'f'}", "overwrite": "true"}
            return files.call("POST", "2.0/dbfs/put", data=form, files={"contents": content}, headers=headers or {})


OLD, NEW = ({"User-Agent": f"databricks-sdk-py/0.{minor}.0 python/3.11.7 os/linux auth/pat"} for minor in (36, 37))
WAYS = ("files", "import-file", "import", "dbfs")


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_that_was_read_before_empties_nothing(files: Files, there: dict[str, Path], way: str) -> None:
    """SDK 0.20 to 0.36 repeat a refused upload with what is left of their stream."""
    stream = io.BytesIO(b"print(2)\n")
    stream.read()
    answer = upload(files, way, stream, headers=OLD)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert there[way].read_text() == NOTEBOOK
    assert files.waiting() == []
    assert upload(files, way, io.BytesIO(), name="new", headers=OLD).ok, "an empty file may be made"
    assert upload(files, way, io.BytesIO(), name="new", headers=OLD).ok, "and again"
    assert upload(files, way, io.BytesIO(b"print(2)\n")).ok
    assert b"print(2)" in there[way].read_bytes()


@pytest.mark.parametrize("way", ["files", "import-file"])
def test_a_file_is_emptied_by_a_body_that_says_that_it_is_empty(files: Files, there: dict[str, Path], way: str) -> None:
    assert upload(files, way, b"", headers={"Content-Length": "0", **OLD}).ok  # type: ignore[arg-type] # bytes, as curl sends them
    assert there[way].read_bytes() == b""
    assert upload(files, way, io.BytesIO(b"print(2)\n")).ok
    assert upload(files, way, io.BytesIO(), headers=NEW).ok, "which begins its streams again"
    assert there[way].read_bytes() == b""


def test_a_part_of_another_version_is_not_sent(files: Files, there: dict[str, Path]) -> None:
    url = f"2.0/fs/files{VOLUME}/f"
    modified = files.call("HEAD", url).headers["Last-Modified"]
    for condition, status, found in (
        (modified, 206, "#"),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 200, NOTEBOOK),
        ('"x"', 200, NOTEBOOK),
    ):
        answer = files.call("GET", url, headers={"Range": "bytes=0-0", "If-Range": condition})
        assert (answer.status_code, answer.text) == (status, found)


def boundary(fields: dict[str, str], part: str) -> bytes:
    """A form whose last part has begun."""
    parts = "".join(f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items())
    return f'{parts}--b\r\nContent-Disposition: form-data; name="{part}"; filename="f"\r\n\r\nprint('.encode()


SHORT: dict[str, tuple[str, str, bytes]] = {
    "files": (f"PUT /api/2.0/fs/files{VOLUME}/f?overwrite=true", "", b"print("),
    "import-file": ("POST /api/2.0/workspace-files/import-file/Shared/f?overwrite=true", "", b"print("),
    "import": (
        "POST /api/2.0/workspace/import",
        "Content-Type: multipart/form-data; boundary=b\r\n",
        boundary({**FORM, "path": "/Shared/n"}, "content"),
    ),
    "dbfs": (
        "POST /api/2.0/dbfs/put",
        "Content-Type: multipart/form-data; boundary=b\r\n",
        boundary({"path": "/f", "overwrite": "true"}, "contents"),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("length", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_ends_before_its_length_replaces_nothing(files: Files, there: dict[str, Path], way: str, length: str) -> None:
    request, headers, body = SHORT[way]
    sent = body if "Length" in length else b"%x\r\n%s\r\n" % (len(body), body)
    with socket.create_connection((urlsplit(files.url).hostname, urlsplit(files.url).port or 0)) as client:
        head = f"{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n{headers}{length}\r\n\r\n"
        client.sendall(head.encode() + sent)
        until(lambda: files.waiting() != [])
        client.shutdown(socket.SHUT_WR)
        client.settimeout(PATIENCE_S)
        while client.recv(1000):
            pass
    until(lambda: files.waiting() == [])
    assert there[way].read_text() == NOTEBOOK


class Refusing:
    """Refuses what calls ask of the store, so many times or for ever."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: Iterator[ApiError] = iter(())
        self.asked = 0
        for name in ("_read_soon", "_write_soon"):
            monkeypatch.setattr(store, name, self._refusing(getattr(store, name)))

    def times(self, count: int | None) -> None:
        both = itertools.cycle((RequestLimitExceeded("overloaded"), DatabaseAway("away")))
        self.errors = itertools.islice(both, count)

    def _refusing(self, work: Callable[..., Any]) -> Callable[..., Any]:
        async def attempt(*arguments: Any, **options: Any) -> Any:
            self.asked += 1
            for error in self.errors:
                raise error
            return await work(*arguments, **options)

        return attempt


@pytest.fixture
def refusing(database: Store, monkeypatch: pytest.MonkeyPatch) -> Refusing:
    monkeypatch.setattr("brickyard.store.patience.PAUSE_S", (0.01, 0.05))
    return Refusing(database, monkeypatch)


@pytest.mark.parametrize("way", WAYS)
def test_uploads_wait_where_others_are_refused(files: Files, there: dict[str, Path], refusing: Refusing, way: str) -> None:
    refusing.times(2)
    assert files.call("GET", "2.0/dbfs/list?path=/").status_code == 429
    assert files.call("GET", "2.0/dbfs/list?path=/").status_code == 503
    refusing.times(7)
    assert upload(files, way, io.BytesIO(b"print(2)\n" * 100_000)).ok
    assert there[way].read_bytes().count(b"print(2)") == 100_000


def test_an_upload_whose_client_goes_while_it_waits_is_dropped(files: Files, there: dict[str, Path], refusing: Refusing) -> None:
    """It waits for its audit entry, and all of it has arrived."""
    request, headers, _ = SHORT["files"]
    with socket.create_connection((urlsplit(files.url).hostname, urlsplit(files.url).port or 0)) as client:
        head = f"{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n{headers}Content-Length: 3\r\n\r\nne"
        client.sendall(head.encode())
        until(lambda: files.waiting() != [])
        refusing.times(None)
        asked = refusing.asked
        client.sendall(b"w")
        until(lambda: refusing.asked > asked + 2)
    until(lambda: files.waiting() == [])
    refusing.times(0)
    assert upload(files, "dbfs", io.BytesIO(b"x")).ok, "everything goes on"
    assert there["files"].read_text() == NOTEBOOK


def test_uploads_wait_for_the_rate_limit(files: Files, there: dict[str, Path]) -> None:
    headers = {"Authorization": "Bearer secret"}
    with edge(**files.services, rate_limits={"*": 2.0}) as url:  # 20 at once
        place = f"{url}/api/2.0/fs/files{VOLUME}"
        answers = [requests.head(f"{place}/f", headers=headers, timeout=PATIENCE_S) for _ in range(60)]
        assert answers[-1].status_code == 429
        stream = io.BytesIO(b"new")
        assert requests.put(f"{place}/g", data=stream, headers=headers, timeout=PATIENCE_S).status_code == 204
    assert there["files"].with_name("g").read_bytes() == b"new"


PARTS = (
    "part_number=2&upload_type=multipart&session_token=t",
    "upload_type=resumable",
    "session_token=t",
    "offset=5",
    "file_path=/Volumes/main/default/data/other",
)


@pytest.mark.parametrize("query", PARTS)
def test_a_part_replaces_nothing(files: Files, there: dict[str, Path], query: str) -> None:
    url = f"2.0/fs/files{VOLUME}/f"
    for method, path in (("PUT", f"{url}?overwrite=true&{query}"), ("DELETE", f"{url}?{query}")):
        status, code, said = files.refused(method, path, data=b"x" if method == "PUT" else None)
        assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
        assert f"'{query.partition('=')[0]}'" in said
    assert there["files"].read_text() == NOTEBOOK


@pytest.mark.parametrize(
    "header",
    [{"Content-Range": "bytes 5-9/100"}, {"Content-Encoding": "gzip"}, {"If-None-Match": "*"}, {"If-Match": '"x"'}],
)
def test_what_changes_the_meaning_of_an_upload_is_refused(files: Files, there: dict[str, Path], header: dict[str, str]) -> None:
    for way in ("files", "import-file"):
        answer = upload(files, way, io.BytesIO(b"x"), headers=header)
        assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
        assert next(iter(header)) in answer.json()["message"]
        assert there[way].read_text() == NOTEBOOK
    assert upload(files, "files", io.BytesIO(b"x"), headers={"Content-Encoding": "identity"}).ok
