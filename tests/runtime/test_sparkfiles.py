"""Spark out of its source distribution, from the places where packages are."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from brickyard.runtime.packagefiles import FileMissing, PackageFiles
from brickyard.runtime.parts import GivenUp, Parts, Span, waterfall
from brickyard.runtime.sparkfiles import UnpackError, destination, drop_signatures, share_equal, unpack
from tests.support.golden import Golden

VERSION = "4.0.5"
NAME = f"pyspark-{VERSION}.tar.gz"
FILES = {
    "PKG-INFO": "Metadata-Version: 2.4\nName: pyspark\nVersion: 4.0.5\n",
    "LICENSE": "Apache",
    "setup.py": "raise SystemExit",
    "pyspark/__init__.py": "",
    "pyspark/shell.py": "print('shell')",
    "pyspark/find_spark_home.py": "#!/usr/bin/env python3\nprint('home')\n",
    "deps/jars/spark-core.jar": "jar" * 1000,
    "deps/jars/connect-repl/ammonite.jar": "left out",
    "deps/bin/spark-class": "#!/bin/sh\n",
    "deps/bin/spark-class.cmd": "left out",
    "deps/examples/pi.py": "left out",
    "deps/data/rows.txt": "left out",
    "deps/licenses/LICENSE-x.txt": "x",
    "lib/pyspark.zip": "zip",
    "../../outside": "left out",
}


def distribution(files: dict[str, str] = FILES) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"pyspark-{VERSION}/{name}")
            member.size, member.mode = len(text), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


def unpacked(data: bytes, place: Path, *, pinned: bytes | None = None, piece: int = 100) -> Path:
    site = place / "lib" / "site-packages"
    (place / "bin").mkdir(parents=True)
    site.mkdir(parents=True)
    digest = hashlib.sha256(data if pinned is None else pinned).hexdigest()
    pieces = (data[start : start + piece] for start in range(0, len(data), piece))
    unpack(pieces, version=VERSION, sha256=frozenset([digest]), venv=place, site=site)
    return site


def test_what_a_wheel_would_install_is_there(tmp_path: Path) -> None:
    site = unpacked(distribution(), tmp_path)
    found = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    info = "pyspark-4.0.5.dist-info"
    assert found == {
        "pyspark/__init__.py", "pyspark/shell.py", "pyspark/find_spark_home.py", "pyspark/python/pyspark/shell.py",
        "pyspark/jars/spark-core.jar", "pyspark/bin/spark-class", "pyspark/licenses/LICENSE-x.txt",
        "pyspark/python/lib/pyspark.zip", f"{info}/METADATA", f"{info}/RECORD", f"{info}/WHEEL", f"{info}/INSTALLER",
        f"{info}/top_level.txt", f"{info}/licenses/LICENSE",
    }  # fmt: skip
    assert (site / "pyspark" / "bin" / "spark-class").stat().st_mode & 0o111 == 0o111
    assert (tmp_path / "bin" / "find_spark_home.py").read_text() == f"#!{tmp_path}/bin/python\nprint('home')\n"
    (package,) = importlib.metadata.distributions(path=[str(site)])
    assert (package.name, package.version) == ("pyspark", VERSION)
    assert all(Path(str(each.locate())).exists() for each in package.files or [])


@pytest.mark.parametrize("name", ["pyspark/../../x", "../x", "deps/jars/../../x.jar", "pyspark.egg-info/PKG-INFO", "deps/R/x"])
def test_nothing_lands_elsewhere(name: str) -> None:
    assert not destination(name, "info")


def test_what_has_another_checksum_does_not_count(tmp_path: Path) -> None:
    data = distribution()
    with pytest.raises(UnpackError, match="checksum"):
        unpacked(data, tmp_path, pinned=data + b"x")
    assert list(importlib.metadata.distributions(path=[str(tmp_path / "lib" / "site-packages")])) == []


def test_bytes_after_the_archive_belong_to_the_checksum(tmp_path: Path) -> None:
    data = distribution()
    with pytest.raises(UnpackError):
        unpacked(data + b"x" * 5000, tmp_path, pinned=data)


@pytest.mark.parametrize("cut", [10, 300])
def test_half_a_file_is_no_spark(tmp_path: Path, cut: int) -> None:
    with pytest.raises(UnpackError):
        unpacked(distribution()[:-cut], tmp_path)


def test_an_error_while_it_is_read_is_passed_on(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield distribution()[:200]
        raise FileMissing("the network is down")

    site = tmp_path / "site"
    with pytest.raises(FileMissing):
        unpack(pieces(), version=VERSION, sha256=frozenset(), venv=tmp_path, site=site)


def test_equal_jars_are_one_file(tmp_path: Path) -> None:
    for runtime, jars in {"a": {"same": "1", "other": "2"}, "b": {"same": "1", "other": "3", "new": "4"}}.items():
        (tmp_path / runtime).mkdir()
        for name, text in jars.items():
            (tmp_path / runtime / f"{name}.jar").write_text(text)
    assert share_equal(tmp_path / "b", [tmp_path / "a", tmp_path / "nowhere"]) == 1
    assert (tmp_path / "a" / "same.jar").samefile(tmp_path / "b" / "same.jar")
    assert (tmp_path / "b" / "other.jar").read_text() == "3"


class Index(BaseHTTPRequestHandler):
    """A package index that may cut off its answers."""

    data: ClassVar[bytes] = distribution()
    cut_after: ClassVar[list[int]] = []  # bytes of the next answers
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        type(self).asked.append(f"{self.path} {self.headers.get('Range', '')} {self.headers.get('Authorization', '')}")
        if self.path == "/simple/pyspark/":
            page = f'<a href="../../files/{NAME}#sha256=0">{NAME}</a>'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)
        elif self.path == f"/files/{NAME}":
            start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
            body = self.data[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: self.cut_after.pop(0)] if self.cut_after else body)
        else:
            self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    Index.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null", "XDG_CONFIG_HOME": str(tmp_path), **more}


def test_signatures_are_taken_out_of_sparks_compiler_alone(tmp_path: Path) -> None:
    main = b"Manifest-Version: 1.0\r\nMulti-Release: true\r\n\r\n"
    files = {
        "META-INF/MANIFEST.MF": main
        + b"Name: a/B.class\r\nSHA-256-Digest: 1\r\n\r\nName: a/C.class\r\nSHA-256-Digest: 2\r\n\r\n",
        "META-INF/DUMMY.SF": b"signed",
        "META-INF/DUMMY.DSA": b"the signature",
        "META-INF/services/a.DSA": b"no signature",
        "a/B.class": b"\xca\xfe\xba\xbe",
    }
    for name in ("janino-3.1.9.jar", "bcprov-1.80.jar"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as jar:
            for path, data in files.items():
                jar.writestr(path, data)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    linked = tmp_path / "of another runtime"
    linked.hardlink_to(tmp_path / "janino-3.1.9.jar")
    drop_signatures(tmp_path)
    kept = {name: data for name, data in files.items() if name not in ("META-INF/DUMMY.SF", "META-INF/DUMMY.DSA")}
    with zipfile.ZipFile(tmp_path / "janino-3.1.9.jar") as jar:
        assert {name: jar.read(name) for name in jar.namelist()} == {**kept, "META-INF/MANIFEST.MF": main}
        assert {info.compress_type for info in jar.infolist()} == {zipfile.ZIP_STORED}
    assert (tmp_path / "bcprov-1.80.jar").read_bytes() == before["bcprov-1.80.jar"]
    assert linked.read_bytes() == before["janino-3.1.9.jar"], "what shares the file keeps it"
    once = (tmp_path / "janino-3.1.9.jar").stat()
    drop_signatures(tmp_path)
    assert (tmp_path / "janino-3.1.9.jar").stat() == once
    assert {path.name for path in tmp_path.iterdir()} == {*before, linked.name}


def test_a_transfer_that_breaks_is_continued(tmp_path: Path, index: str) -> None:
    Index.cut_after[:] = [100, 50]
    files = PackageFiles(environ(tmp_path, UV_DEFAULT_INDEX=f"http://user:word@{index}/simple"))
    data = b"".join(files.read(files.find("pyspark", NAME), look=lambda: None))
    assert data == Index.data
    assert [each.split(" ")[1] for each in Index.asked] == ["", "", "bytes=100-", "bytes=150-"]
    assert all(each.endswith("Basic dXNlcjp3b3Jk") for each in Index.asked), "with the index's own credentials"


def test_files_of_this_machine_are_found(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / NAME).write_bytes(b"data")
    files = PackageFiles(environ(tmp_path, PIP_FIND_LINKS=str(tmp_path / "wheels"), UV_DEFAULT_INDEX=f"file://{tmp_path}/none"))
    assert b"".join(files.read(files.find("pyspark", NAME), look=lambda: None)) == b"data"
    with golden.refused(FileMissing):
        files.find("pyspark", "pyspark-9.tar.gz")


def test_what_only_uv_understands_is_left_to_it(tmp_path: Path, golden: Golden) -> None:
    with golden.refused(FileMissing):
        PackageFiles(environ(tmp_path, UV_CONFIG_FILE="/somewhere.toml"))
    with golden.refused(FileMissing):
        PackageFiles(environ(tmp_path, UV_DEFAULT_INDEX="ftp://index/simple"))


def test_the_first_failure_ends_the_other_parts(golden: Golden) -> None:
    parts = Parts()

    def waits() -> None:
        while True:
            parts.look()

    def fails() -> None:
        raise OSError("the disk is full")

    with golden.refused(OSError), parts:
        waiting = parts.begin("waits", waits)
        parts.begin("fails", fails)
        waiting.result()
    assert isinstance(waiting.exception(), GivenUp)


def test_the_waterfall_names_parts_in_their_order(golden: Golden) -> None:
    golden(waterfall([Span("late", 2.0, 3.5), Span("early", 0.0, 1.0)]))
