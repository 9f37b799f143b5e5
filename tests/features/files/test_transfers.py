"""Uploads in parts and presigned URLs, as the SDK and plain HTTP use them."""

from __future__ import annotations

import datetime
import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import requests
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.catalog import VolumeType

from brickyard.domain.clock import rfc3339
from brickyard.domain.identity import NEVER, TokenRow, UserRow
from brickyard.features.files import MultipartSessions, PresignedUrls, VolumeTransfers
from brickyard.features.files.presigned import MOST_MS
from brickyard.store.store import Store
from tests.features.files.conftest import KEY, Files
from tests.features.files.races import contents_seen
from tests.support.edge import USER, edge, sdk
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until

TOP = "/Volumes/main/default/data"
PATH = f"{TOP}/dir/f 1%.bin"
QUOTED = "2.0/fs/files/Volumes/main/default/data/dir/f%201%25.bin"
EXPIRED = b"<Code>AccessDenied</Code><Message>Request has expired</Message>"  # what the SDK looks for
PART = 1 << 20


@pytest.fixture(autouse=True)
def user(database: Store) -> Iterator[None]:
    """The user of the tests, and the token in use."""

    def write(tx: Any) -> None:
        tx.users.put(UserRow(user_name=USER.user_name, user_id=USER.user_id))
        tx.tokens.insert(
            TokenRow(token_id=USER.token_id, digest="d", user_name=USER.user_name, comment="", created_ms=0, expiry_ms=NEVER)
        )

    database.write_sync(write)
    yield
    database.write_sync(lambda tx: tx.tokens.delete(USER.token_id))


@pytest.fixture
def volume(files: Files) -> Path:
    """The directory of the volume main.default.data."""
    files.client.volumes.create("main", "default", "data", VolumeType.MANAGED)
    return files.volumes / "main" / "default" / "data"


def begin(files: Files, query: str = "") -> str:
    answer = files.call("POST", f"{QUOTED}?action=initiate-upload{query}")
    assert answer.ok, answer.text
    return str(answer.json()["multipart_upload"]["session_token"])


def urls(files: Files, token: str, start: int = 1, count: int = 1, **more: Any) -> list[str]:
    body = {"path": PATH, "session_token": token, "start_part_number": start, "count": count, **more}
    answer = files.call("POST", "2.0/fs/create-upload-part-urls", json=body)
    assert answer.ok, answer.text
    return [each["url"] for each in answer.json()["upload_part_urls"]]


def put(url: str, content: bytes, **options: Any) -> requests.Response:
    return requests.put(url, data=content, timeout=PATIENCE_S, **options)


def completing(token: str) -> str:
    return f"{QUOTED}?action=complete-upload&upload_type=multipart&session_token={token}"


def complete(files: Files, token: str, *parts: tuple[int, str]) -> requests.Response:
    body = {"parts": [{"part_number": number, "etag": etag} for number, etag in parts]}
    return files.call("POST", completing(token), json=body)


def download_url(files: Files, path: str = PATH, **more: str) -> str:
    answer = files.call("POST", "2.0/fs/create-download-url", params={"path": path, **more})
    assert answer.ok, answer.text
    return str(answer.json()["url"])


@pytest.mark.parametrize("parallel", [True, False])
def test_the_sdk_sends_parts_and_reads_ranges(
    files: Files, volume: Path, tmp_path: Path, parallel: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """databricks-sdk: `mixins/files.py`."""
    client = sdk(files.url)
    files.clock.advance(ms=int(datetime.datetime.now(datetime.UTC).timestamp() * 1000) - files.clock.now_ms())
    settings = client.files._config
    settings.files_ext_multipart_upload_min_stream_size = PART
    settings.files_ext_multipart_upload_part_size_options = [PART]
    settings.files_ext_parallel_download_min_file_size = PART
    settings.files_ext_parallel_download_default_part_size = PART
    data = os.urandom(5 * PART + 17)
    with caplog.at_level(logging.WARNING, logger="databricks.sdk"):
        for _ in range(2):  # a new file, and one in place of another
            client.files.upload(PATH, io.BytesIO(data), overwrite=True, use_parallel=parallel)
            assert (volume / "dir" / "f 1%.bin").read_bytes() == data
        assert client.files.download(PATH).contents.read() == data  # type: ignore[union-attr]
        (tmp_path / "big").write_bytes(data)
        client.files.upload_from(f"{TOP}/big", str(tmp_path / "big"), use_parallel=parallel)
        client.files.download_to(f"{TOP}/big", str(tmp_path / "back"), use_parallel=parallel)
        assert (tmp_path / "back").read_bytes() == (volume / "big").read_bytes() == data
        with pytest.raises(DatabricksError) as error:
            client.files.upload(PATH, io.BytesIO(data), overwrite=False)
    assert error.value.error_code == "ALREADY_EXISTS"
    assert caplog.records == []
    assert len(list(files.multipart.glob("*/about.json"))) == 3, "all were sent in parts"
    assert files.waiting() == []


def test_of_a_part_the_last_content_counts_and_the_same_changes_nothing(files: Files, volume: Path) -> None:
    token = begin(files)
    first, second = urls(files, token, count=2)
    other = put(first, b"other").headers["etag"]
    etag = put(first, b"one").headers["etag"]
    assert put(first, b"one").headers["etag"] == etag != other
    assert put(second, b"two").ok
    refused = complete(files, token, (1, other), (2, ""))
    assert (refused.status_code, refused.json()["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    for _ in range(2):  # a client that got no answer asks again
        assert complete(files, token, (1, etag), (2, "")).ok
    assert (volume / "dir" / "f 1%.bin").read_bytes() == b"onetwo"


def test_what_cannot_be_completed_is_refused(files: Files, volume: Path, golden: Golden) -> None:
    token = begin(files)
    put(urls(files, token)[0], b"x")
    for query, body in (
        (completing(token), {"parts": [{"part_number": 2}]}),
        (completing(token), {"parts": [{"part_number": 1}, {"part_number": 1}]}),
        (completing(token), {"parts": []}),
        (completing(token), {"parts": [{"part_number": "x"}]}),
        (completing(token).replace("multipart", "resumable"), {"parts": [{"part_number": 1}]}),
        (f"{QUOTED}?action=finish", {}),
    ):
        status, code, message = files.refused("POST", query, json=body)
        assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
        golden(message)
    assert files.refused("POST", completing("0" * 32), json={"parts": [{"part_number": 1}]})[0] == 404
    assert list(volume.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"start_part_number": 0}, "start_part_number"),
        ({"start_part_number": 10_001}, "start_part_number"),
        ({"count": 0}, "count"),
        ({"expire_time": "soon"}, "expire_time"),
        ({"expire_time": "2020-01-01T00:00:00Z"}, "expire_time"),
    ],
)
def test_urls_that_cannot_be_had_are_refused(
    files: Files, volume: Path, changes: dict[str, Any], field: str, golden: Golden
) -> None:
    body = {"path": PATH, "session_token": begin(files), "start_part_number": 1, "count": 1, **changes}
    status, code, message = files.refused("POST", "2.0/fs/create-upload-part-urls", json=body)
    assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
    assert f"'{field}'" in message
    golden(message)


def test_a_url_is_for_one_method_path_upload_and_part(files: Files, volume: Path) -> None:
    token, other = begin(files), begin(files)
    url = urls(files, token)[0]
    (volume / "g").write_bytes(b"secret")
    signature = parse_qs(urlsplit(url).query)["signature"][0]
    read = download_url(files, f"{TOP}/g")
    wrong = [
        ("PUT", url.replace("part_number=1", "part_number=2")),
        ("PUT", url.replace(token, other)),
        ("PUT", url.replace("f%201%25", "g")),
        ("DELETE", url),
        ("GET", url),
        ("PUT", url.replace(signature, signature[:-1])),
        ("PUT", url.replace(signature, "")),
        ("PUT", url.replace(signature, "!")),
        ("GET", read.replace("data/g", "data/dir")),
        ("PUT", read + f"&session_token={token}&part_number=1"),
    ]
    for method, changed in wrong:
        answer = requests.request(method, changed, data=b"x", timeout=PATIENCE_S)
        assert answer.status_code in (400, 403), (method, changed, answer.text)
        assert EXPIRED not in answer.content
    for headers in ({"Content-Range": "bytes 0-0/5"}, {"Content-Encoding": "gzip"}):
        assert put(url, b"x", headers=headers).status_code == 400
    assert put(url, b"x").ok
    assert requests.get(read, timeout=PATIENCE_S).content == b"secret"


def test_a_url_expires_with_its_time_its_token_and_its_user(files: Files, volume: Path, database: Store) -> None:
    (volume / "dir").mkdir()
    (volume / "dir" / "f 1%.bin").write_bytes(b"x")
    token = begin(files)
    now = files.clock.now_ms()
    short, long = (
        (urls(files, token, expire_time=rfc3339(until))[0], download_url(files, expire_time=rfc3339(until)))
        for until in (now + 10_000, now + MOST_MS - 10_000)
    )

    def answers(pair: tuple[str, str]) -> list[bytes]:
        found = [put(pair[0], b"y"), requests.get(pair[1], timeout=PATIENCE_S)]
        assert {each.status_code for each in found} in ({200}, {403})
        return [each.content for each in found]

    assert answers(short) == answers(long) == [b"{}", b"x"]
    files.clock.advance(ms=10_000)
    assert all(EXPIRED in each for each in answers(short))
    assert answers(long) == [b"{}", b"x"]
    database.write_sync(lambda tx: tx.users.put(UserRow(user_name=USER.user_name, user_id=USER.user_id, active=False)))
    assert all(EXPIRED in each for each in answers(long))
    database.write_sync(lambda tx: tx.users.put(UserRow(user_name=USER.user_name, user_id=USER.user_id)))
    assert answers(long) == [b"{}", b"x"]
    database.write_sync(lambda tx: tx.tokens.delete(USER.token_id))
    assert all(EXPIRED in each for each in answers(long))


def test_a_download_goes_on_where_it_broke_off(files: Files, volume: Path) -> None:
    (volume / "g").write_bytes(b"0123456789")
    url = download_url(files, f"{TOP}/g")
    whole = requests.get(url, timeout=PATIENCE_S)
    assert (whole.status_code, whole.content, whole.headers["accept-ranges"]) == (200, b"0123456789", "bytes")
    since = {"If-Unmodified-Since": whole.headers["last-modified"]}
    rest = requests.get(url, headers={"Range": "bytes=4-", **since}, timeout=PATIENCE_S)
    assert (rest.status_code, rest.content, rest.headers["content-range"]) == (206, b"456789", "bytes 4-9/10")
    assert requests.get(url, headers={"Range": "bytes=10-"}, timeout=PATIENCE_S).status_code == 416
    os.utime(volume / "g", (2_000_000_000, 2_000_000_000))
    assert requests.get(url, headers={"Range": "bytes=4-", **since}, timeout=PATIENCE_S).status_code == 412
    missing = files.refused("POST", "2.0/fs/create-download-url", params={"path": PATH})
    assert missing[0] == 404


def test_uploads_are_aborted_both_ways(files: Files, volume: Path) -> None:
    called, linked = begin(files), begin(files)
    for token in (called, linked):
        put(urls(files, token)[0], b"x")
    assert files.call("POST", f"{QUOTED}?action=abort-upload&upload_type=multipart&session_token={called}").ok
    answer = files.call("POST", "2.0/fs/create-abort-upload-url", json={"path": PATH, "session_token": linked})
    url = answer.json()["abort_upload_url"]["url"]
    assert requests.delete(url, data=b"", timeout=PATIENCE_S).status_code == 200
    for token in (called, linked):
        assert complete(files, token, (1, "")).status_code == 404
    assert [path.name for path in files.multipart.iterdir()] == [".lock"]
    assert list(volume.iterdir()) == []


def test_a_part_that_breaks_off_is_not_there(files: Files, volume: Path) -> None:
    token = begin(files)
    url = urls(files, token)[0]

    def content() -> Iterator[bytes]:
        yield b"x" * (2 * PART)
        until(lambda: list(files.multipart.glob("*/in-*")) != [])
        raise InterruptedError

    with pytest.raises((InterruptedError, requests.RequestException)):
        put(url, content())  # type: ignore[arg-type]
    until(lambda: list(files.multipart.glob("*/in-*")) == [])
    assert complete(files, token, (1, "")).status_code == 400
    assert put(url, b"y").ok
    assert complete(files, token, (1, "")).ok
    assert (volume / "dir" / "f 1%.bin").read_bytes() == b"y"


def test_of_uploads_to_one_path_one_is_there_whole(files: Files, volume: Path) -> None:
    target = volume / "dir" / "f 1%.bin"
    contents = [bytes([number]) * PART for number in range(1, 4)]

    def upload(content: bytes) -> None:
        token = begin(files)
        for number, url in enumerate(urls(files, token, count=2), 1):
            assert put(url, content[: PART // number]).ok
        assert complete(files, token, (1, ""), (2, "")).ok

    wanted = {content + content[: PART // 2] for content in contents}
    assert contents_seen(target, upload, contents) <= wanted
    assert target.read_bytes() in wanted


def test_no_upload_replaces_a_file_that_it_may_not(files: Files, volume: Path) -> None:
    tokens = [begin(files, "&overwrite=false") for _ in range(2)]
    for token in tokens:
        put(urls(files, token)[0], token.encode())
    assert complete(files, tokens[0], (1, "")).ok
    refused = complete(files, tokens[1], (1, ""))
    assert (refused.status_code, refused.json()["error_code"]) == (409, "ALREADY_EXISTS")
    assert (volume / "dir" / "f 1%.bin").read_text() == tokens[0]
    assert files.refused("POST", f"{QUOTED}?action=initiate-upload&overwrite=false")[:2] == (409, "ALREADY_EXISTS")


def test_any_server_takes_the_next_part_and_completes(files: Files, volume: Path, database: Store) -> None:
    """Two servers with one database and one storage; the first ends half-way."""
    tree = files.services["transfers"]._files
    second = VolumeTransfers(
        volumes=files.services["volumes"],
        files=tree,
        sessions=MultipartSessions(place=files.multipart, clock=files.clock),
        urls=PresignedUrls(key=KEY, store=database, clock=files.clock),
    )
    token = begin(files)
    one, two = urls(files, token, count=2)
    with edge(**{**files.services, "transfers": second}) as other:
        assert put(one, b"1").ok
        assert put(two.replace(files.url, other), b"2").ok
        headers = {"Authorization": "Bearer secret"}
        body = {"parts": [{"part_number": 1}, {"part_number": 2}]}
        for url in (other, files.url):
            answer = requests.post(f"{url}/api/{completing(token)}", json=body, headers=headers, timeout=PATIENCE_S)
            assert answer.ok, answer.text
    assert (volume / "dir" / "f 1%.bin").read_bytes() == b"12"


def test_a_full_disk_takes_no_parts_and_loses_none(files: Files, volume: Path) -> None:
    token = begin(files)
    one, two = urls(files, token, count=2)
    assert put(one, b"1").ok
    files.room.why = "The workspace's disk is full."
    for answer in (put(two, b"2"), complete(files, token, (1, "")), files.call("POST", f"{QUOTED}?action=initiate-upload")):
        assert (answer.status_code, msgspec.json.decode(answer.content)["error_code"]) == (507, "RESOURCE_EXHAUSTED")
    files.room.why = ""
    assert complete(files, token, (1, "")).ok
    assert (volume / "dir" / "f 1%.bin").read_bytes() == b"1"


def test_a_volume_that_is_gone_takes_no_upload(files: Files, volume: Path) -> None:
    token = begin(files)
    put(urls(files, token)[0], b"1")
    files.client.volumes.delete("main.default.data")
    assert complete(files, token, (1, "")).status_code == 404
    assert list(files.volumes.iterdir()) == []
