"""Volumes and the files in them, as the SDK and plain HTTP use them."""

from __future__ import annotations

import http.client
import io
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from databricks.sdk.errors import NotFound
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.catalog import VolumeType

from brickyard.api.databricks.filestreams import part
from brickyard.features.files.errors import RangeNotSatisfiable
from tests.features.files.conftest import Files
from tests.features.files.races import contents_seen
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.trees import deep

TOP = "2.0/fs/files/Volumes/main/default/data"
DIRECTORIES = "2.0/fs/directories/Volumes/main/default/data"


@pytest.fixture
def volume(files: Files) -> Path:
    """The directory of the volume main.default.data."""
    files.client.volumes.create("main", "default", "data", VolumeType.MANAGED)
    return files.volumes / "main" / "default" / "data"


def test_a_volume_is_made_seen_renamed_and_removed(files: Files, golden: Golden) -> None:
    volumes = files.client.volumes
    made = volumes.create("main", "default", "data", VolumeType.MANAGED)
    assert (made.full_name, made.volume_type) == ("main.default.data", VolumeType.MANAGED)
    assert volumes.read("main.default.data").volume_id == made.volume_id
    with golden.refused(DatabricksError):
        volumes.create("main", "default", "data", VolumeType.MANAGED)
    files.client.files.upload("/Volumes/main/default/data/f", io.BytesIO(b"1"))
    assert volumes.update("main.default.data", new_name="other").name == "other"
    assert [each.full_name for each in volumes.list("main", "default")] == ["main.default.other"]
    with pytest.raises(NotFound) as missing:
        list(volumes.list("main", "none"))
    assert missing.value.error_code == "SCHEMA_DOES_NOT_EXIST"
    with pytest.raises(NotFound):
        volumes.read("main.default.data")
    volumes.delete("main.default.other")
    with pytest.raises(NotFound):
        volumes.delete("main.default.other")
    assert list(files.volumes.iterdir()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"volume_type": "EXTERNAL"},
        {"storage_location": "s3://bucket/path"},
        {"comment": "x" * 1025},
        {"name": ".."},
        {"name": "a/b"},
        {"catalog_name": "a.b"},
        {"name": "x" * 256},
    ],
)
def test_a_volume_that_cannot_be_had_is_refused(files: Files, changes: dict[str, str], golden: Golden) -> None:
    wanted = {"catalog_name": "main", "schema_name": "default", "name": "v", "volume_type": "MANAGED", **changes}
    status, code, message = files.refused("POST", "2.1/unity-catalog/volumes", json=wanted)
    assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
    golden(message)
    assert list(files.volumes.iterdir()) == []


def test_the_sdk_writes_reads_lists_and_removes_files(files: Files, volume: Path, golden: Golden) -> None:
    api, data = files.client.files, os.urandom(3_000_000)
    path = "/Volumes/main/default/data/new dir/f%201 ü.bin"
    api.upload(path, io.BytesIO(data))
    assert (volume / "new dir" / "f%201 ü.bin").read_bytes() == data
    found = api.get_metadata(path)
    assert (found.content_length, found.content_type) == (len(data), "application/octet-stream")
    assert api.download(path).contents.read() == data  # type: ignore[union-attr]
    with pytest.raises(DatabricksError) as error:
        api.upload(path, io.BytesIO(b"2"), overwrite=False)
    assert error.value.error_code == "ALREADY_EXISTS"
    api.upload(path, io.BytesIO(b""), overwrite=True)
    assert api.download(path).contents.read() == b""  # type: ignore[union-attr]
    api.create_directory("/Volumes/main/default/data/d/e")
    api.get_directory_metadata("/Volumes/main/default/data/d/e")
    entries = {
        entry.name: (entry.is_directory, entry.path) for entry in api.list_directory_contents("/Volumes/main/default/data")
    }
    assert entries == {name: (True, f"/Volumes/main/default/data/{name}") for name in ("new dir", "d")}
    with golden.refused(DatabricksError):
        api.delete_directory("/Volumes/main/default/data/d")
    api.delete_directory("/Volumes/main/default/data/d/e")
    api.delete(path)
    with pytest.raises(NotFound):
        api.get_metadata(path)
    assert files.waiting() == []


def test_a_volume_has_a_comment(files: Files, golden: Golden) -> None:
    volumes = files.client.volumes
    assert volumes.create("main", "default", "noted", VolumeType.MANAGED, comment="ours").comment == "ours"
    assert volumes.read("main.default.noted").comment == "ours"
    assert volumes.update("main.default.noted", comment="theirs").comment == "theirs"
    moved = volumes.update("main.default.noted", new_name="moved")
    assert (moved.name, moved.comment) == ("moved", "theirs")
    assert [each.comment for each in volumes.list("main", "default")] == ["theirs"]
    assert volumes.update("main.default.moved", comment="").comment is None
    assert files.refused("PATCH", "2.1/unity-catalog/volumes/main.default.moved", json={})[0] == 400
    status, code, why = files.refused("PATCH", "2.1/unity-catalog/volumes/main.default.moved", json={"owner": "x"})
    assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
    golden(why)


def test_an_upload_overwrites_unless_told_otherwise(files: Files, volume: Path) -> None:
    """As Terraform's `databricks_file` and the Go SDK send it."""
    path = f"{TOP}/f"
    for content in (b"one", b"two"):
        assert files.call("PUT", path, data=content).status_code == 204
    assert (volume / "f").read_bytes() == b"two"
    assert files.call("POST", f"{path}?action=initiate-upload").ok
    refused = files.refused("PUT", f"{path}?overwrite=false", data=b"three")
    assert refused[:2] == (409, "ALREADY_EXISTS")
    assert (volume / "f").read_bytes() == b"two"


def test_what_the_cli_tells_apart(files: Files, volume: Path) -> None:
    """databricks-cli: libs/filer/files_client.go, dbfs_client.go."""
    (volume / "d" / "e").mkdir(parents=True)
    (volume / "f").write_bytes(b"1")
    directories = TOP.replace("fs/files", "fs/directories")
    full = files.call("DELETE", f"{directories}/d")
    assert full.status_code == 400
    assert [each["reason"] for each in full.json()["details"]] == ["FILES_API_DIRECTORY_IS_NOT_EMPTY"]
    for method, path in (
        ("GET", f"{TOP}/d"),
        ("HEAD", f"{TOP}/d"),
        ("DELETE", f"{TOP}/d"),
        ("GET", TOP),
        ("HEAD", "2.0/fs/files/Volumes/main"),
        ("GET", f"{directories}/f"),
        ("HEAD", f"{directories}/f"),
        ("DELETE", f"{directories}/f"),
    ):
        assert files.call(method, path).status_code == 404, (method, path)
    assert files.refused("PUT", f"{directories}/f")[:2] == (409, "ALREADY_EXISTS")
    listed = files.call("GET", "2.0/dbfs/list", params={"path": "/Volumes"}).json()["files"]
    assert [(each["path"], each["is_dir"]) for each in listed] == [("/Volumes/main", True)]
    assert files.call("GET", "2.0/dbfs/get-status", params={"path": "dbfs:/Volumes/"}).json()["is_dir"] is True
    assert files.refused("GET", "2.0/dbfs/list", params={"path": "/Volumes/main"})[0] == 400


def test_dbfs_of_the_sdk_reaches_volumes(files: Files, volume: Path, tmp_path: Path) -> None:
    dbfs = files.client.dbfs
    (tmp_path / "from").write_bytes(b"content")
    dbfs.copy(f"file:{tmp_path}/from", "dbfs:/Volumes/main/default/data/d/f")
    assert (volume / "d" / "f").read_bytes() == b"content"
    assert dbfs.exists("/Volumes/main/default/data/d/f")
    assert not dbfs.exists("/Volumes/main/default/data/none")
    assert [entry.path for entry in dbfs.list("dbfs:/Volumes/main/default/data", recursive=True)] == [
        "/Volumes/main/default/data/d/f"
    ]
    dbfs.delete("/Volumes/main/default/data/d", recursive=True)
    assert list(volume.iterdir()) == []


def test_parts_of_a_file(files: Files, volume: Path) -> None:
    (volume / "f").write_bytes(bytes(range(100)))
    got = files.call("GET", f"{TOP}/f", headers={"Range": "bytes=10-19"})
    assert (got.status_code, got.content, got.headers["Content-Range"]) == (206, bytes(range(10, 20)), "bytes 10-19/100")
    when = {"If-Unmodified-Since": got.headers["Last-Modified"]}
    assert files.call("GET", f"{TOP}/f", headers={"Range": "bytes=90-", **when}).content == bytes(range(90, 100))
    assert files.call("HEAD", f"{TOP}/f").headers["Content-Length"] == "100"
    os.utime(volume / "f", (2_000_000_000, 2_000_000_000))
    assert files.refused("GET", f"{TOP}/f", headers=when)[:2] == (412, "PRECONDITION_FAILED")
    assert files.refused("GET", f"{TOP}/f", headers={"Range": "bytes=100-"})[0] == 416
    assert files.refused("GET", f"{TOP}/f", headers={"If-Unmodified-Since": "yesterday"})[0] == 400


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", (0, 100)), ("bytes=0-", (0, 100)), ("bytes=5-5", (5, 6)), ("bytes=50-500", (50, 100)), ("bytes=-30", (70, 100)),
        ("bytes=-300", (0, 100)), ("bytes = 1 - 2", (1, 3)), ("bytes=7-5", (0, 100)), ("bytes=-", (0, 100)),
        ("bytes=1-2,5-6", (0, 100)), ("lines=1-2", (0, 100)), ("bytes=²-", (0, 100)), ("bytes=" + "9" * 30 + "-", (0, 100)),
    ],
)  # fmt: skip
def test_ranges(asked: str, found: tuple[int, int]) -> None:
    assert part(asked, 100) == found


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=100-200", "bytes=-0"])
def test_ranges_beyond_the_end(asked: str) -> None:
    with pytest.raises(RangeNotSatisfiable):
        part(asked, 100)


def test_a_long_directory_is_listed_page_by_page(files: Files, volume: Path) -> None:
    names = [f"{number:04}" for number in range(25)]
    for name in names:
        (volume / name).touch()
    os.mkfifo(volume / "0010-fifo")
    seen, token, pages = [], "", 0
    while True:
        page = files.call("GET", DIRECTORIES, params={"page_size": 10, "page_token": token}).json()
        seen += [entry["name"] for entry in page["contents"]]
        pages, token = pages + 1, page.get("next_page_token", "")
        if not token:
            break
    assert (seen, pages) == (names, 3)
    assert files.refused("GET", f"{DIRECTORIES}?page_token=%21")[0] == 400
    assert files.refused("GET", f"{DIRECTORIES}?page_size=-1")[0] == 400
    assert [entry["name"] for entry in files.call("GET", "2.0/fs/directories/Volumes").json()["contents"]] == ["main"]


def test_nothing_is_written_where_no_volume_is(files: Files) -> None:
    for method, path in (
        ("PUT", "2.0/fs/files/Volumes/main/default/data/f"),
        ("PUT", "2.0/fs/directories/Volumes/main/default/data/d"),
        ("PUT", "2.0/fs/directories/Volumes/main/default/data"),
        ("POST", "2.0/fs/files/Volumes/main/default/data/f?action=initiate-upload"),
    ):
        status, _, message = files.refused(method, path, data=b"x")
        assert status == 404
        assert "'main.default.data'" in message
        assert "unity-catalog/volumes" in message
    assert list(files.volumes.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "/Volumes/main/default/data/../../../outside/secret", "/Volumes/main/default/data/%2e%2e/x",
        "/Volumes/main/default/data/a%2F..%2Fb", "/Volumes/main/default/data/a%00b", "/Volumes/main/default/data",
        "/Volumes/main/default", "/Volumes", "/etc/passwd", "/dbfs/x", "/Volumes/main/default/data/" + "x" * 256,
        "/Volumes/../outside/secret", "x",
    ],
)  # fmt: skip
def test_paths_that_lead_nowhere_are_refused(files: Files, volume: Path, path: str) -> None:
    for method in ("PUT", "GET", "DELETE", "POST"):
        connection = http.client.HTTPConnection(urlsplit(files.url).netloc)  # requests would shorten the path
        connection.request(method, f"/api/2.0/fs/files{path}", body=b"x", headers={"Authorization": "Bearer secret"})
        answer = connection.getresponse()
        assert answer.status in (400, 404, 405), (method, answer.read())
        connection.close()
    assert [entry.name for entry in files.outside.iterdir()] == ["secret"]
    assert list(volume.iterdir()) == []


def test_links_are_not_followed(files: Files, volume: Path) -> None:
    (volume / "dir").symlink_to(files.outside)
    (volume / "file").symlink_to(files.outside / "secret")
    os.mkfifo(volume / "fifo")
    for name in ("file", "dir/secret", "fifo"):
        for method in ("GET", "DELETE"):
            assert files.refused(method, f"{TOP}/{name}")[0] == 404
    assert files.refused("GET", f"{DIRECTORIES}/dir")[0] == 404
    assert files.refused("PUT", f"{TOP}/dir/new", data=b"x")[0] == 409
    assert files.call("PUT", f"{TOP}/file?overwrite=true", data=b"mine").status_code == 204  # replaces the link
    assert (files.outside / "secret").read_text() == "secret"
    assert [entry.name for entry in files.outside.iterdir()] == ["secret"]
    assert (volume / "file").read_bytes() == b"mine"
    (files.volumes / "main" / "default" / "linked").symlink_to(files.outside)
    assert files.refused("GET", "2.1/unity-catalog/volumes/main.default.linked")[0] == 404


def test_a_deep_tree_is_removed_with_its_volume(files: Files, volume: Path) -> None:
    deep(volume / "deep")
    files.client.volumes.delete("main.default.data")
    assert list(files.volumes.iterdir()) == []


def test_of_uploads_to_one_path_one_is_there_whole(files: Files, volume: Path) -> None:
    contents = [bytes([number]) * 3_000_000 for number in range(4)]

    def upload(content: bytes) -> None:
        assert files.call("PUT", f"{TOP}/f?overwrite=true", data=io.BytesIO(content)).status_code == 204

    assert contents_seen(volume / "f", upload, contents) <= set(contents)
    assert (volume / "f").read_bytes() in contents
    assert files.waiting() == []


def test_an_upload_that_breaks_off_leaves_nothing(files: Files, volume: Path) -> None:
    with socket.create_connection((urlsplit(files.url).hostname, urlsplit(files.url).port or 0)) as client:
        head = f"PUT /api/{TOP}/f HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: 5000000\r\n\r\n"
        client.sendall(head.encode() + b"x" * 2_000_000)
        until(lambda: files.waiting() != [])
        assert not (volume / "f").exists()
    until(lambda: files.waiting() == [])
    assert list(volume.iterdir()) == []


def test_a_full_disk_takes_no_uploads_and_everything_else_works(files: Files, volume: Path) -> None:
    (volume / "f").write_bytes(b"1")
    files.room.why = full = "The workspace's disk is full."
    for method, path in (
        ("PUT", f"{TOP}/new"), ("POST", f"{TOP}/new?action=initiate-upload"),
    ):  # fmt: skip
        assert files.refused(method, path, data=b"x") == (507, "RESOURCE_EXHAUSTED", full)
    assert files.call("GET", f"{TOP}/f").content == b"1"
    assert files.call("DELETE", f"{TOP}/f").status_code == 204
    assert list(volume.iterdir()) == []
