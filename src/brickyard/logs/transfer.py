"""Copies one file, object or directory from or to a place: `python -m brickyard.logs.transfer`, a short-lived child.

`transfers.run` starts it; use that. It is a program of its own because the library for object stores would double an agent's
memory, and because it may have to run in a node's network.

stdin: one line, a `Job` as JSON. The pipe stays open: when it closes, the parent is gone, and the program ends.
stdout: JSON lines. `{"bytes", "files"}` is progress, twice a second; the last line has `"done": true`, or is
`{"error": CODE, "message": TEXT}`. Codes:

* NOT_FOUND, DENIED: the place does not exist, or the credentials do not allow it (or there are none);
* INVALID: the place or the local path is of the wrong type: a directory, a link, a device;
* TOO_LARGE: more than `max_bytes`. Nothing is left of the file that was too large;
* TIMEOUT: not done within `limit_s`;
* FULL: the disk of this machine is full;
* UNAVAILABLE: anything else: no network, a storage that is down. A retry may help;
* UNSUPPORTED: this installation has no library for object stores.

Credentials of object stores come from the environment (AWS_ACCESS_KEY_ID, ...), which `transfers.credentials` selects. Files are
reached below the directories in `roots` only, and no link is followed, on neither side. A file appears complete or not at all.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec

from brickyard.domain.errors import is_full_disk
from brickyard.domain.places import Kind, Place, PlaceError
from brickyard.logs.credentials import NOTE
from brickyard.machine import files

CHUNK = 1 << 20
PART = 8 << 20  # of an upload in parts; what is smaller takes one request
FILES_AT_ONCE = 8  # to or from an object store, where most of the time of a small file goes by waiting
TELL_EVERY_S = 0.5
MAX_FILES = 10_000
MAX_DEPTH = 32
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # NONBLOCK: opening a planted FIFO must not hang


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to copy. With `directory`, both sides are directories, and everything below is copied under the same names, or only
    the files in `names`."""

    place: Place
    local: str  # an absolute path on this machine
    upload: bool = False  # from `local` to the place; otherwise from the place to `local`
    directory: bool = False
    names: tuple[str, ...] = ()
    roots: dict[str, str] = {}  # Kind -> the directory on this machine that its paths are below
    max_bytes: int = 0  # altogether; 0: no limit
    limit_s: float = 600.0
    encryption: str = ""  # S3 uploads: "sse-s3" or "sse-kms"; "": the bucket's default
    kms_key: str = ""


_decode_job = msgspec.json.Decoder(Job).decode


class TransferFailed(Exception):
    """The job cannot be done; `code` is one of the codes above."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Side(Protocol):
    """Where files come from or go to. Names are relative, checked, and "" for the place itself."""

    def names(self) -> Iterator[str]: ...

    def read(self, name: str) -> contextlib.AbstractContextManager[Iterator[bytes]]: ...

    def write(self, name: str, chunks: Iterator[bytes]) -> None: ...


class Files:
    """A file or directory below `root`, which is trusted; nothing below it is."""

    def __init__(self, root: str, path: str, shown: str) -> None:
        self._root = root
        self._parts = tuple(part for part in path.split("/") if part)
        self._shown = shown

    def names(self) -> Iterator[str]:
        with self._directory(self._parts) as top:
            yield from self._walk(top, "", MAX_DEPTH)

    def _walk(self, directory: int, prefix: str, depth: int) -> Iterator[str]:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            with contextlib.suppress(OSError, UnicodeEncodeError):
                name.encode()
                mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
                if stat.S_ISREG(mode):
                    yield prefix + name
                elif stat.S_ISDIR(mode) and depth:
                    inner = os.open(name, files.DIRECTORY, dir_fd=directory)
                    try:
                        yield from self._walk(inner, f"{prefix}{name}/", depth - 1)
                    finally:
                        os.close(inner)

    @contextlib.contextmanager
    def read(self, name: str) -> Iterator[Iterator[bytes]]:
        *above, last = self._parts_of(name)
        with self._directory(above) as directory:
            fd = os.open(last, _FILE, dir_fd=directory)
        with os.fdopen(fd, "rb", buffering=0) as handle:
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                raise TransferFailed("INVALID", f"{self._say(name)} is not a regular file")
            yield iter(lambda: handle.read(CHUNK), b"")

    def write(self, name: str, chunks: Iterator[bytes]) -> None:
        *above, last = self._parts_of(name)
        part = f".{last[:200]}.{os.getpid()}.part"
        with self._directory(above, make=True) as directory:
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
            try:
                with os.fdopen(fd, "wb", buffering=0) as handle:
                    for chunk in chunks:
                        _write_all(handle, chunk)
                os.rename(part, last, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part, dir_fd=directory)
                raise

    def _parts_of(self, name: str) -> list[str]:
        parts = [*self._parts, *(name.split("/") if name else ())]
        if not parts or any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise TransferFailed("INVALID", f"{self._say(name)} is not the path of a file")
        return parts

    def _directory(self, parts: list[str] | tuple[str, ...], *, make: bool = False) -> AbstractContextManager[int]:
        return files.descended(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), parts, make=make)

    def _say(self, name: str) -> str:
        return f"{self._shown}/{name}" if name else self._shown


def _write_all(handle: IO[bytes], chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[handle.write(view) :]


class Objects:
    """An object, or everything below a prefix."""

    def __init__(self, store: Any, place: Place) -> None:
        import obstore  # noqa: PLC0415 - optional: without it, only files can be copied

        self._obstore: Any = obstore
        self._store = store
        self._place = place

    def names(self) -> Iterator[str]:
        prefix = f"{self._place.path}/" if self._place.path else ""
        for batch in self._obstore.list(self._store, prefix=prefix or None):
            for found in batch:
                name = str(found["path"]).removeprefix(prefix)
                if name and not name.endswith("/"):
                    self._place.child(name)  # a key may have any form; a file's name may not
                    yield name

    @contextlib.contextmanager
    def read(self, name: str) -> Iterator[Iterator[bytes]]:
        result = self._obstore.get(self._store, self._key(name))
        yield (bytes(chunk) for chunk in result.stream(min_chunk_size=CHUNK))

    def write(self, name: str, chunks: Iterator[bytes]) -> None:
        key, first = self._key(name), bytearray()
        for chunk in chunks:
            first += chunk
            if len(first) >= PART:
                more = itertools.chain((bytes(first),), chunks)
                self._obstore.put(self._store, key, more, chunk_size=PART, max_concurrency=2)
                return
        self._obstore.put(self._store, key, bytes(first), use_multipart=False)

    def _key(self, name: str) -> str:
        place = self._place.child(name) if name else self._place
        if not place.path:
            raise TransferFailed("INVALID", f"{place.address} is a bucket, not an object")
        return place.path


def open_store(place: Place, *, encryption: str = "", kms_key: str = "") -> Any:
    """Opens an object store with the credentials in this process's environment. Raises TransferFailed."""
    try:
        from obstore import store  # noqa: PLC0415 - optional
    except ImportError as error:
        text = f"{place.address} is in an object store, and obstore, the library for these, is not installed: {error}"
        raise TransferFailed("UNSUPPORTED", text) from error
    plain = place.endpoint.startswith("http://") or os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    client: Any = {"connect_timeout": "10s", "read_timeout": "60s", "timeout": "3600s", "allow_http": plain}
    retry: Any = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
    settings: dict[str, Any] = {}
    if place.kind is Kind.S3:
        match = re.search(r"\bs3[.-]([a-z]+-[a-z-]+-\d+)\.amazonaws\.", place.endpoint)
        region = match.group(1) if match else place.region
        settings = {"endpoint": place.endpoint, "region": region, "sse_kms_key_id": kms_key}
        settings["server_side_encryption"] = {"sse-s3": "AES256", "sse-kms": "aws:kms"}.get(encryption, "")
        settings = {name: value for name, value in settings.items() if value}
        return store.S3Store(place.bucket, config=settings, client_options=client, retry_config=retry)  # type: ignore[arg-type]
    if place.kind is Kind.ABFSS:
        account, _, suffix = place.account.partition(".dfs.")
        settings = {"account_name": account}
        if suffix != "core.windows.net" and "AZURE_STORAGE_ENDPOINT" not in os.environ:
            settings["endpoint"] = f"https://{account}.blob.{suffix}"
        return store.AzureStore(place.bucket, config=settings, client_options=client, retry_config=retry)  # type: ignore[arg-type]
    return store.GCSStore(place.bucket, client_options=client, retry_config=retry)


class Copy:
    """One job, with its count of bytes and files."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._bytes = 0
        self._files = 0
        self._told = time.monotonic()
        self._counting = threading.Lock()

    def run(self) -> dict[str, Any]:
        """Returns the last line. Raises TransferFailed, OSError and the library's errors."""
        job = self._job
        local = Path(job.local)
        mine = Files(str(local.parent), local.name, job.local)
        other = self._other_side(job)
        source, target = (mine, other) if job.upload else (other, mine)
        names = (job.names or source.names()) if job.directory else [""]
        found = list(itertools.islice(names, MAX_FILES + 1))
        if len(found) > MAX_FILES:
            raise TransferFailed("TOO_LARGE", f"there are more than {MAX_FILES} files")

        def copy(name: str) -> None:
            with source.read(name) as chunks:
                target.write(name, self._counted(chunks))
            with self._counting:
                self._files += 1

        pool = ThreadPoolExecutor(FILES_AT_ONCE if job.place.is_object else 1)
        try:
            for _ in pool.map(copy, found):
                pass
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an error, nobody waits for the others
        return {"done": True, "bytes": self._bytes, "files": self._files}

    def _other_side(self, job: Job) -> Side:
        place = job.place
        if place.is_object:
            return Objects(open_store(place, encryption=job.encryption, kms_key=job.kms_key), place)
        root = job.roots.get(place.kind.value, "")
        if not root:
            raise TransferFailed("UNSUPPORTED", f"{place.address} cannot be reached from here")
        return Files(root, place.path, place.address)

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            with self._counting:
                self._bytes += len(chunk)
                if 0 < self._job.max_bytes < self._bytes:
                    raise TransferFailed("TOO_LARGE", f"it is larger than {self._job.max_bytes} bytes")
                if time.monotonic() - self._told > TELL_EVERY_S:
                    self._told = time.monotonic()
                    tell({"bytes": self._bytes, "files": self._files})
            yield chunk


def explain(error: BaseException, place: Place) -> dict[str, str]:
    """Returns the line that reports an error."""
    name = type(error).__name__
    if isinstance(error, TransferFailed):
        code, text = error.code, str(error)
    elif isinstance(error, PlaceError):
        code, text = "INVALID", str(error)
    elif isinstance(error, FileNotFoundError) or name == "NotFoundError":
        code, text = "NOT_FOUND", f"{place.address} does not exist"
    elif is_full_disk(error):
        code, text = "FULL", "the disk is full"
    elif isinstance(error, (IsADirectoryError, NotADirectoryError)) or getattr(error, "strerror", "") == os.strerror(40):
        code, text = "INVALID", f"{place.address} is not a plain file or directory"
    elif isinstance(error, PermissionError) or name in ("PermissionDeniedError", "UnauthenticatedError"):
        code, text = "DENIED", f"{place.address} cannot be accessed with these credentials: {_first_line(error)}"
        text = " ".join(filter(None, (text, os.environ.get(NOTE))))
    else:
        code, text = "UNAVAILABLE", f"{place.address} cannot be reached: {_first_line(error)}"
    return {"error": code, "message": text}


def _first_line(error: BaseException) -> str:
    """The start of the library's message, without the queries of URLs: they may hold credentials."""
    text = str(error).strip().partition("\n\nDebug source")[0]
    return re.sub(r"\?[^\s\"'),]*", "?...", " ".join(text.split()))[:300]


_telling = threading.Lock()


def tell(line: dict[str, Any]) -> None:
    with _telling:
        os.write(1, msgspec.json.encode(line) + b"\n")


def _watch_parent() -> None:
    while os.read(0, 64):
        pass
    os._exit(1)


def _watch_clock(limit_s: float) -> None:
    time.sleep(limit_s)
    tell({"error": "TIMEOUT", "message": f"it was not done within {limit_s:g} s"})
    os._exit(1)


def main() -> None:
    job = _decode_job(sys.stdin.buffer.readline())
    for watch in (threading.Thread(target=_watch_parent), threading.Thread(target=_watch_clock, args=(job.limit_s,))):
        watch.daemon = True
        watch.start()
    try:
        last = Copy(job).run()
    except Exception as error:  # whatever it is, the parent must hear of it
        last = dict(explain(_cause(error), job.place))
    tell(last)
    os._exit("error" in last)  # without waiting for the library's threads


def _cause(error: BaseException) -> BaseException:
    """The library wraps errors of the chunks that it is given."""
    inner = error.__cause__ or error.__context__
    return inner if isinstance(inner, (TransferFailed, OSError)) and not isinstance(error, (TransferFailed, OSError)) else error


if __name__ == "__main__":
    main()
