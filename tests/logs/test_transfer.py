"""Copies from and to places: against a real S3-speaking server, and as files."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from brickyard.domain.places import Kind, Place, parse
from brickyard.logs import transfer, transfers
from brickyard.logs.credentials import NOTE
from brickyard.logs.transfers import Done, Job, TransferFailed, credentials, run, run_patiently
from tests.support.golden import Golden
from tests.support.objectstore import KEYS, ObjectStore, serve
from tests.support.patience import PATIENCE_S


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with serve() as store:
        yield store


def _env(kind: Kind = Kind.S3) -> dict[str, str]:
    return credentials(kind, cluster=KEYS, machine=os.environ)


def _s3(store: ObjectStore, key: str) -> Place:
    return parse(f"s3://{store.bucket}/{key}", endpoint=store.endpoint)


def _do(job: Job, env: dict[str, str] | None = None) -> Done:
    return asyncio.run(run(job, env=env or _env()))


def _refused(job: Job, env: dict[str, str] | None = None) -> TransferFailed:
    with pytest.raises(TransferFailed) as caught:
        _do(job, env)
    return caught.value


def test_one_object_and_back(store: ObjectStore, tmp_path: Path) -> None:
    store.put("scripts/a.sh", b"#!/bin/sh\n")
    assert _do(Job(place=_s3(store, "scripts/a.sh"), local=str(tmp_path / "a.sh"))) == Done(10, 1)
    assert (tmp_path / "a.sh").read_bytes() == b"#!/bin/sh\n"
    large = os.urandom(1 << 20) * 20
    (tmp_path / "large").write_bytes(large)
    assert _do(Job(upload=True, place=_s3(store, "out/large"), local=str(tmp_path / "large"))) == Done(len(large), 1)
    assert store.get("out/large") == large


def test_a_directory_and_back(store: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "logs"
    (source / "driver").mkdir(parents=True)
    (source / "driver" / "stdout").write_bytes(b"one")
    (source / "stderr").write_bytes(b"three")
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "fifo")
    place = _s3(store, "logs/0101")
    assert _do(Job(upload=True, directory=True, place=place, local=str(source))) == Done(8, 2)
    assert store.get("logs/0101/driver/stdout") == b"one"
    assert _do(Job(directory=True, place=place, local=str(tmp_path / "back"))) == Done(8, 2)
    assert (tmp_path / "back" / "stderr").read_bytes() == b"three"
    job = Job(upload=True, directory=True, names=("stderr",), place=_s3(store, "some"), local=str(source))
    assert _do(job) == Done(5, 1)
    assert [name.name for name in (tmp_path / "back").rglob("*.part")] == []


def test_what_goes_wrong_with_objects(store: ObjectStore, tmp_path: Path, golden: Golden) -> None:
    local = str(tmp_path / "x")
    missing = _refused(Job(place=_s3(store, "nothing"), local=local))
    assert missing.code == "NOT_FOUND"
    golden(str(missing), "s3://bucket/nothing")
    store.put("large", b"x" * 5_000_000)
    assert _refused(Job(place=_s3(store, "large"), local=local, max_bytes=4_999_999)).code == "TOO_LARGE"
    assert list(tmp_path.iterdir()) == []  # nothing is left of it
    (tmp_path / "big").write_bytes(b"x" * 100)
    place = _s3(store, "never")
    assert _refused(Job(upload=True, place=place, local=str(tmp_path / "big"), max_bytes=99)).code == "TOO_LARGE"
    assert _refused(Job(place=place, local=local)).code == "NOT_FOUND"
    assert _refused(Job(place=Place(kind=Kind.S3, bucket="bucket", endpoint=store.endpoint), local=local)).code == "INVALID"


def test_small_files_take_one_request_each_and_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """The store answers when as many requests wait as are made at once: a slow one takes a directory as quickly as a file."""
    together, methods = threading.Barrier(transfer.FILES_AT_ONCE), list[str]()

    class Store(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            methods.append(self.command)
            together.wait(PATIENCE_S)
            self.send_response(200)
            self.send_header("ETag", '"tag"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            methods.append(self.command)
            self.send_error(400)

        def log_message(self, *_: object) -> None:
            pass

    names = tuple(f"log-{number}" for number in range(2 * transfer.FILES_AT_ONCE))
    (tmp_path / "logs").mkdir()
    for name in names:
        (tmp_path / "logs" / name).write_text("line\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            place = parse("s3://bucket/logs", endpoint=f"http://127.0.0.1:{server.server_port}")
            done = _do(Job(upload=True, directory=True, names=names, place=place, local=str(tmp_path / "logs")))
        finally:
            server.shutdown()
            serving.join()
    assert done == Done(5 * len(names), len(names))
    assert methods == ["PUT"] * len(names)


def test_storage_that_hangs_or_is_away(tmp_path: Path, unused_tcp_port_listener: int, golden: Golden) -> None:
    place = parse("s3://bucket/x", endpoint=f"http://127.0.0.1:{unused_tcp_port_listener}")
    error = _refused(Job(place=place, local=str(tmp_path / "x"), limit_s=1.0))
    assert error.code == "TIMEOUT"
    golden(str(error), "1 s")


def test_storage_that_is_away_for_a_while_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = list[str]()
    limits = list[float]()

    async def answer(job: Job, **_: object) -> Done:
        limits.append(job.limit_s)
        if code := answers.pop(0):
            raise TransferFailed(code, "no")
        return Done(1, 1)

    def outcome(*codes: str, patience_s: float = 60.0, limit_s: float = 60.0) -> str:
        answers[:], limits[:] = codes, []
        job = Job(place=parse("s3://bucket/x", region="r"), local="/x", limit_s=limit_s)
        try:
            asyncio.run(run_patiently(job, env={}, patience_s=patience_s, again_s=0.001))
        except TransferFailed as error:
            return error.code
        return ""

    monkeypatch.setattr(transfers, "run", answer)
    assert outcome("UNAVAILABLE", "UNAVAILABLE", "") == ""
    assert 60 >= limits[0] > limits[1] > limits[2], "all attempts share one limit"
    assert outcome("UNAVAILABLE", "DENIED") == "DENIED"
    assert outcome("UNAVAILABLE", patience_s=0) == "UNAVAILABLE"
    assert outcome("UNAVAILABLE", limit_s=0) == "UNAVAILABLE"


@pytest.fixture
def unused_tcp_port_listener() -> Iterator[int]:
    """A port that accepts connections and says nothing."""
    import socket  # noqa: PLC0415 - only here

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_cancelling_ends_the_child(tmp_path: Path, unused_tcp_port_listener: int) -> None:
    place = parse("s3://bucket/x", endpoint=f"http://127.0.0.1:{unused_tcp_port_listener}")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await run(Job(place=place, local=str(tmp_path / "x"), limit_s=60), env=_env())


def test_without_the_library_the_error_says_so(tmp_path: Path, store: ObjectStore) -> None:
    why = "no wheel for this machine"
    (tmp_path / "obstore.py").write_text(f"raise ImportError({why!r})")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    error = _refused(Job(place=_s3(store, "x"), local=str(tmp_path / "x")), _env() | {"PYTHONPATH": path})
    assert error.code == "UNSUPPORTED"
    assert why in str(error)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _files(tmp_path: Path, path: str, **more: object) -> Job:
    root = tmp_path / "dbfs"
    root.mkdir(exist_ok=True)
    job = {"roots": {"dbfs": str(root)}, "local": str(tmp_path / "local"), **more}
    return Job(place=parse(f"dbfs:/{path}"), **job)  # type: ignore[arg-type] # mypy cannot match a dict's values to keywords


def test_files_are_copied_both_ways(tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(b"text")
    assert _do(_files(tmp_path, "a/b/c.txt", upload=True)) == Done(4, 1)
    assert (tmp_path / "dbfs/a/b/c.txt").read_bytes() == b"text"
    assert _do(_files(tmp_path, "a", directory=True, local=str(tmp_path / "copy"))) == Done(4, 1)
    assert (tmp_path / "copy/b/c.txt").read_bytes() == b"text"


@pytest.mark.parametrize("upload", [False, True])
@pytest.mark.parametrize("planted", ["dir", "file", "fifo"])
def test_no_link_is_followed(tmp_path: Path, planted: str, upload: bool) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"secret")
    job = _files(tmp_path, "d/x", upload=upload)
    root = tmp_path / "dbfs"
    if planted == "dir":
        (root / "d").symlink_to(outside)
    else:
        (root / "d").mkdir()
        (root / "d/x").symlink_to(outside / "x") if planted == "file" else os.mkfifo(root / "d/x")
    if upload:
        (tmp_path / "local").write_bytes(b"new")
    if upload and planted != "dir":  # the name is replaced, and what it led to is not touched
        assert _do(job) == Done(3, 1)
        assert (root / "d/x").read_bytes() == b"new"
    else:
        assert _refused(job).code == "INVALID"
        assert not upload or (outside / "x").exists()
    assert (outside / "x").read_bytes() == b"secret"


def test_missing_files_directories_and_kinds(tmp_path: Path) -> None:
    assert _refused(_files(tmp_path, "none")).code == "NOT_FOUND"
    (tmp_path / "dbfs/dir").mkdir()
    assert _refused(_files(tmp_path, "dir")).code == "INVALID"
    assert _refused(_files(tmp_path, "none", roots={})).code == "UNSUPPORTED"


# ── credentials ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cluster_cannot_name_files_or_borrow_the_machines_credentials() -> None:
    machine = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "machine's", "AWS_PROFILE": "p", "OTHER": "x"}
    assert credentials(Kind.S3, cluster={}, machine=machine) == {key: machine[key] for key in machine if key != "OTHER"}
    cluster = {"AWS_ENDPOINT_URL": "http://elsewhere", "AWS_WEB_IDENTITY_TOKEN_FILE": "/etc/shadow", "LD_PRELOAD": "x.so"}
    found = credentials(Kind.S3, cluster=cluster, machine=machine)
    assert {name: value for name, value in found.items() if name != NOTE} == {
        "PATH": "/bin", "AWS_ENDPOINT_URL": "http://elsewhere", "AWS_SKIP_SIGNATURE": "true",
    }  # fmt: skip
    assert credentials(Kind.DBFS, cluster=cluster, machine=machine) == {"PATH": "/bin"}
