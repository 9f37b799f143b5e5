"""Unpacks Spark from its source distribution while it is read: what a wheel made of it would install, except what no node needs.

The package index has Spark as a source distribution alone. Building a wheel of it compresses 400 MB of JARs that are compressed
already, and takes half a minute; the files are the same.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import queue
import re
import shutil
import tarfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from brickyard.runtime.packagefiles import Pieces

AHEAD = 32  # pieces of up to 1 MiB that are read before they are unpacked
_KEPT = re.compile(r"lib/[^/]+\.zip|deps/jars/[^/]+\.jar|deps/bin/[^/]+(?<!\.cmd)|deps/(sbin|licenses)/[^/]+|pyspark/.+")
_MOVED = (("lib/", "pyspark/python/lib/"), ("deps/", "pyspark/"), ("", ""))
SIGNED = ("janino-*.jar", "commons-compiler-*.jar")
_SIGNATURE = re.compile(r"META-INF/[^/]+[.](SF|DSA|RSA|EC)")
_WHEEL = "Wheel-Version: 1.0\nGenerator: brickyard\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class UnpackError(Exception):
    """What was read is not the file that was asked for; the message says how that shows."""


class Unpacked(NamedTuple):
    """What it took: bytes read, and seconds of waiting for them."""

    size: int
    waited_s: float


def destination(name: str, dist_info: str) -> str:
    """Returns where a file of the distribution belongs below site-packages, or "" if it is left out: examples, their data,
    command files for Windows, a shell's JARs. `name`: without the top directory."""
    if ".." in name.split("/"):
        return ""
    if name in ("LICENSE", "NOTICE"):
        return f"{dist_info}/licenses/{name}"
    if name == "PKG-INFO":
        return f"{dist_info}/METADATA"
    if not _KEPT.fullmatch(name):
        return ""
    return next(new + name.removeprefix(old) for old, new in _MOVED if name.startswith(old))


def unpack(pieces: Iterator[bytes], *, version: str, sha256: frozenset[str], venv: Path, site: Path) -> Unpacked:
    """Unpacks the distribution into the virtual environment `venv`, whose site-packages is `site`. Raises UnpackError, OSError,
    and what `pieces` raises.

    The checksum is known at the end: until this returns, nothing of it may be used.
    """
    dist_info, draft = f"pyspark-{version}.dist-info", "pyspark.unverified"
    digest, ahead = hashlib.sha256(), _Ahead(pieces)
    written: list[str] = []
    with contextlib.closing(ahead):
        source = Pieces(_hashed(ahead, digest.update))
        try:
            with tarfile.open(fileobj=gzip.GzipFile(fileobj=source), mode="r|", bufsize=1 << 20) as archive:
                for member in archive:
                    where = destination(member.name.partition("/")[2], draft)
                    if where and member.isreg():
                        _write(archive, member, site / where)
                        written.append(where)
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UnpackError(f"it is damaged: {error}") from error
        while source.read(1 << 20):
            pass  # whatever follows the archive belongs to the checksum
    if digest.hexdigest() not in sha256:
        raise UnpackError("its checksum is not the one that is pinned")
    if f"{draft}/METADATA" not in written or not any(name.startswith("pyspark/jars/") for name in written):
        raise UnpackError("it has no Spark in it")
    (site / draft).rename(site / dist_info)  # from now on it counts as installed
    written = [name.replace(f"{draft}/", f"{dist_info}/") for name in written] + _like_a_wheel(venv, site, dist_info)
    _record(site, dist_info, written)
    return Unpacked(ahead.size, ahead.waited_s)


def share_equal(jars: Path, others: list[Path]) -> int:
    """Replaces JARs by links to equal ones of other runtimes; returns the bytes that this saves."""
    saved = 0
    for jar in jars.glob("*.jar"):
        for twin in (each / jar.name for each in others):
            with contextlib.suppress(OSError):  # a file system without links, or a runtime that is being removed
                if not twin.samefile(jar) and _equal(twin, jar):
                    draft = jar.with_suffix(".link")
                    draft.hardlink_to(twin)
                    draft.replace(jar)
                    saved += jar.stat().st_size
                    break
    return saved


def drop_signatures(jars: Path) -> None:
    """Takes the signatures out of the JARs of Spark's compiler for its queries, which all drivers and executors use. Their signer
    is called "dummy" and nobody asks for it, but Java keeps signed classes out of archives, and compares the checksum of each one
    that it loads. What is left is stored as it is, which is read faster."""
    for name in SIGNED:
        for jar in jars.glob(name):
            draft = jar.with_suffix(".unsigned")
            with zipfile.ZipFile(jar) as old:
                if not any(_SIGNATURE.fullmatch(each) for each in old.namelist()):
                    continue
                with zipfile.ZipFile(draft, "w") as new:
                    for info in old.infolist():
                        if not _SIGNATURE.fullmatch(info.filename):
                            new.writestr(zipfile.ZipInfo(info.filename, info.date_time), _plain(info.filename, old.read(info)))
            draft.replace(jar)


def _plain(name: str, data: bytes) -> bytes:
    """Returns a file's content; of a manifest its main section alone: the others hold the checksums that were signed."""
    return re.split(rb"(?<=\n)\r?\n", data, maxsplit=1)[0] + b"\r\n" if name == "META-INF/MANIFEST.MF" else data


class _Ahead:
    """Reads pieces on another thread, so that reading and unpacking go side by side."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.size, self.waited_s = 0, 0.0
        self._queue: queue.Queue[bytes | BaseException | None] = queue.Queue(AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(pieces,), name="read Spark", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            before = time.monotonic()
            piece = self._queue.get()
            self.waited_s += time.monotonic() - before
            if isinstance(piece, BaseException):
                raise piece
            if piece is None:
                return
            self.size += len(piece)
            yield piece

    def close(self) -> None:
        """Ends the reading."""
        self._closed.set()
        while self._thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._queue.get_nowait()  # it may wait for room
            self._thread.join(0.05)

    def _read(self, pieces: Iterator[bytes]) -> None:
        try:
            for piece in pieces:
                self._queue.put(piece)
                if self._closed.is_set():
                    return
            self._queue.put(None)
        except BaseException as error:
            self._queue.put(error)


def _hashed(pieces: _Ahead, update: Callable[[bytes], None]) -> Iterator[bytes]:
    for piece in pieces:
        update(piece)
        yield piece


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source = archive.extractfile(member)
    if source is None:
        raise UnpackError(f"{member.name} has no content")
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o755 if member.mode & 0o100 or target.parent.name in ("bin", "sbin") else 0o644
    with target.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    target.chmod(mode)


def _like_a_wheel(venv: Path, site: Path, dist_info: str) -> list[str]:
    """Does what the package's setup.py and the installer of a wheel do; returns the files made, relative to `site`."""
    made = {
        f"{dist_info}/WHEEL": _WHEEL,
        f"{dist_info}/INSTALLER": "brickyard\n",
        f"{dist_info}/top_level.txt": "pyspark\n",
        "pyspark/python/pyspark/shell.py": (site / "pyspark" / "shell.py").read_text(),
    }
    for name, text in made.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    scripts = venv / "bin"
    up = os.path.relpath(scripts, site)
    for script in (site / "pyspark" / "bin").iterdir():
        shutil.copy(script, scripts / script.name)
    finder = scripts / "find_spark_home.py"
    _, _, rest = (site / "pyspark" / "find_spark_home.py").read_text().partition("\n")
    finder.write_text(f"#!{scripts / 'python'}\n{rest}")
    finder.chmod(0o755)
    return [*made, *(f"{up}/{script.name}" for script in (site / "pyspark" / "bin").iterdir()), f"{up}/find_spark_home.py"]


def _record(site: Path, dist_info: str, written: list[str]) -> None:
    """Writes the list of files that belong to the package."""
    lines = [f"{name},,{(site / name).stat().st_size}" for name in sorted(set(written))]
    (site / dist_info / "RECORD").write_text("\n".join([*lines, f"{dist_info}/RECORD,,"]) + "\n")


def _equal(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while piece := left.read(io.DEFAULT_BUFFER_SIZE << 7):
            if piece != right.read(io.DEFAULT_BUFFER_SIZE << 7):
                return False
    return True
