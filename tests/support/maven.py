"""A Maven repository on loopback, with artifacts that a test makes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version><dependencies>{required}</dependencies>
</project>"""


class Repository:
    """`directory` is what the server at `url` shows; `asked` are the paths that were asked for."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.asked: list[str] = []

    def add(self, coordinates: str, *, requires: tuple[str, ...] = (), files: Mapping[str, bytes] | None = None) -> None:
        """Adds an artifact, whose jar has `files`."""
        group, name, version = coordinates.split(":")
        place = self.directory / group.replace(".", "/") / name / version
        place.mkdir(parents=True)
        make_jar(place / f"{name}-{version}.jar", files or {f"{name}.txt": b"x"})
        required = "".join(
            "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
                *each.split(":")
            )
            for each in requires
        )
        (place / f"{name}-{version}.pom").write_text(_POM.format(group=group, name=name, version=version, required=required))
        for path in list(place.iterdir()):
            digest = hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
            path.with_name(f"{path.name}.sha1").write_text(digest)


def make_jar(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)


@contextlib.contextmanager
def serve(directory: Path) -> Iterator[Repository]:
    """Serves a directory until the end."""
    made = Repository(directory, "")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            made.asked.append(self.path)

    handler = functools.partial(Handler, directory=str(directory))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
