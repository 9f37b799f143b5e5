"""Upload and download of a large file through the Files API, against an application that only copies it."""

from __future__ import annotations

import contextlib
import http.client
import statistics
import threading
import time
from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

from bench._client import Api
from bench._harness import judged, limited, rss_mib, table, turns
from bench._servers import TOKEN, Served, brickyard, copying

SIZE = 128 << 20
PIECE = 1 << 20
ROUNDS = 5
AT_LEAST = 0.5  # of the floor's rate
MEMORY_MIB = 48.0  # that the server may grow by: a few pieces, and less than the file
VOLUME = {"catalog_name": "main", "schema_name": "default", "name": "bench", "volume_type": "MANAGED"}
FILE = "/api/2.0/fs/files/Volumes/main/default/bench/file?overwrite=true"


def main() -> int:
    rows = []
    with copying() as floor, brickyard() as ours:
        Api(ours.url).post("/api/2.1/unity-catalog/volumes", **VOLUME)
        for name, method in (("upload", "PUT"), ("download", "GET")):
            _rate(ours, method, FILE)  # warm-up, which also brings threads and buffers
            before = rss_mib(ours.pid)
            with _watched(ours) as most:
                rates = turns(ROUNDS, {"floor": partial(_rate, floor, method, "/"), "ours": partial(_rate, ours, method, FILE)})
            ratio = statistics.median(mine / theirs for theirs, mine in zip(*rates.values(), strict=True))
            grown = limited(most[0] - before, MEMORY_MIB)
            rows.append((name, *map(statistics.median, rates.values()), judged(ratio, ratio >= AT_LEAST), AT_LEAST, *grown))
    return table(
        f"Files: {SIZE >> 20} MiB through the Files API, against a plain copy through the same web server, MiB/s",
        ("", "plain copy", "Brickyard", "ratio", "at least", "memory grown by, MiB", "at most"),
        rows,
    )


def _rate(served: Served, method: str, path: str) -> float:
    """MiB per second of one transfer."""
    began = time.perf_counter()
    _call(served, method, path, _content() if method == "PUT" else None)
    return SIZE / 2**20 / (time.perf_counter() - began)


def _content() -> Iterator[bytes]:
    piece = bytes(range(256)) * (PIECE // 256)
    for _ in range(SIZE // PIECE):
        yield piece


def _call(served: Served, method: str, path: str, body: Iterator[bytes] | None) -> None:
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=600)
    headers = {"Authorization": f"Bearer {TOKEN}", **({"Content-Length": str(SIZE)} if body is not None else {})}
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        while answer.read(PIECE):
            pass
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path} answered {answer.status}")


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
