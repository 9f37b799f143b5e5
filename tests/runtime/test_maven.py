"""Files of a Maven repository, from one on loopback that misbehaves on request."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from brickyard.machine import mavenrepo
from brickyard.runtime import maven
from brickyard.runtime.maven import Artifact, ArtifactMissing
from tests.support.golden import Golden

ARTIFACT = Artifact("org.apache.spark", "spark-connect_2.12", "3.5.9")
PATH = "/org/apache/spark/spark-connect_2.12/3.5.9/spark-connect_2.12-3.5.9.jar"
JAR = bytes(range(256)) * 4096
SHA1 = hashlib.sha1(JAR, usedforsecurity=False).hexdigest()


class Repository:
    """What a path answers: bytes, or a status code. `cut`: bytes after which the connection breaks."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | int] = {PATH: JAR, PATH + ".sha1": SHA1.encode()}
        self.cut: int | None = None
        self.url = ""


@pytest.fixture
def repository() -> Iterator[Repository]:
    made = Repository()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = made.files.get(self.path.removeprefix("/maven2"), 404)
            if isinstance(found, int):
                self.send_error(found)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(found)))
            self.end_headers()
            self.wfile.write(found[: made.cut] if self.path.endswith(".jar") else found)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}/maven2"
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def fetch(into: Path, base: str) -> Path:
    return maven.fetch(ARTIFACT, into, base=base, look=lambda: None)


@pytest.mark.parametrize("checksum", [SHA1, SHA1.upper() + "\n", f"{SHA1}  spark-connect.jar"])
def test_a_file_comes_whole(repository: Repository, tmp_path: Path, checksum: str) -> None:
    repository.files[PATH + ".sha1"] = checksum.encode()
    assert fetch(tmp_path, repository.url).read_bytes() == JAR
    assert [path.name for path in tmp_path.iterdir()] == ["spark-connect_2.12-3.5.9.jar"]


@pytest.mark.parametrize(
    ("files", "cut"),
    [
        ({PATH: 404}, None),
        ({PATH + ".sha1": 403}, None),
        ({PATH + ".sha1": b"<html>"}, None),
        ({PATH + ".sha1": b""}, None),
        ({PATH: JAR[:-1]}, None),
        ({}, 70_000),
    ],
)
def test_what_is_wrong_leaves_nothing(
    repository: Repository, tmp_path: Path, files: dict[str, bytes | int], cut: int | None, golden: Golden
) -> None:
    repository.files |= files
    repository.cut = cut
    with golden.refused(ArtifactMissing):
        fetch(tmp_path, repository.url)
    assert not list(tmp_path.iterdir())


def test_a_repository_that_is_not_there(tmp_path: Path, golden: Golden) -> None:
    with golden.refused(ArtifactMissing):
        fetch(tmp_path, "http://127.0.0.1:1/maven2")
    with golden.refused(ArtifactMissing, "BRICKYARD_MAVEN_URL"):
        fetch(tmp_path, mavenrepo.repository({"BRICKYARD_MAVEN_URL": ""}))
    with golden.refused(ArtifactMissing):
        fetch(tmp_path, "file:///etc")


def test_where_it_is_looked_for() -> None:
    assert mavenrepo.repository({}) == "https://repo1.maven.org/maven2"
    assert mavenrepo.repository({"BRICKYARD_MAVEN_URL": "https://mirror.test/maven/"}) == "https://mirror.test/maven"
