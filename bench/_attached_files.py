"""Upload and download of a large file through the Files API, against an application that only copies it."""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from bench._common import rss_mib, table
from bench._servers import TOKEN, Served, brickyard, copying

SIZE = 128 << 20
PIECE = 1 << 20
ROUNDS = 5
AT_LEAST = 0.5  # of the floor's rate
MEMORY_MIB = 48.0  # that the server may grow by: a few pieces, and less than the file
VOLUME = {"catalog_name": "main", "schema_name": "default", "name": "bench", "volume_type": "MANAGED"}
FILE = "/api/2.0/fs/files/Volumes/main/default/bench/file?overwrite=true"


def main() -> int:
    """Prints the table. Returns 1 if a limit is missed."""
    with copying() as floor, brickyard() as ours:
        _call(ours, "POST", "/api/2.1/unity-catalog/volumes", json.dumps(VOLUME).encode())
        rows, good = [], True
        for name, method in (("upload", "PUT"), ("download", "GET")):
            _rate(ours, method, FILE)  # warm-up, which also brings threads and buffers
            before = rss_mib(ours.pid)
            with _watched(ours) as most:
                rates = [(_rate(floor, method, "/"), _rate(ours, method, FILE)) for _ in range(ROUNDS)]
            plain, here = (statistics.median(each) for each in zip(*rates, strict=True))
            ratio, grown = statistics.median(mine / theirs for theirs, mine in rates), most[0] - before
            good = good and ratio >= AT_LEAST and grown <= MEMORY_MIB
            rows.append(
                (name, plain, here, _marked(ratio, ratio >= AT_LEAST), AT_LEAST, _marked(grown, grown <= MEMORY_MIB), MEMORY_MIB)
            )
    table(
        f"Files: {SIZE >> 20} MiB through the Files API, against a plain copy through the same web server, MiB/s",
        ("", "plain copy", "Brickyard", "ratio", "at least", "memory grown by, MiB", "at most"),
        rows,
    )
    return 0 if good else 1


def _marked(value: float, good: bool) -> str:
    return f"{value:.2f} {'✓' if good else '✗'}"


def _rate(served: Served, method: str, path: str) -> float:
    """MiB per second of one transfer."""
    began = time.perf_counter()
    _call(served, method, path, _content() if method == "PUT" else None)
    return SIZE / 2**20 / (time.perf_counter() - began)


def _content() -> Iterator[bytes]:
    piece = bytes(range(256)) * (PIECE // 256)
    for _ in range(SIZE // PIECE):
        yield piece


def _call(served: Served, method: str, path: str, body: bytes | Iterator[bytes] | None) -> None:
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=600)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    if body is not None and not isinstance(body, bytes):
        headers["Content-Length"] = str(SIZE)
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        while answer.read(PIECE):
            pass
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path} answered {answer.status}")
    finally:
        connection.close()


@contextlib.contextmanager
def _watched(served: Served) -> Iterator[list[float]]:
    """The most memory that the server has while the block runs, in a list of one."""
    most, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            most[0] = max(most[0], rss_mib(served.pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()
