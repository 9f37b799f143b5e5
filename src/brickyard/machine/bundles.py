"""Bundles: tar files that carry a checksum of everything in them.

    bundle.json       what it is, for whoever reads no further
    NAME ...          files, directories and links; of several members with one name the last one counts
    manifest.json     every name that counts, with its checksum
    manifest.sha256   the manifest's own checksum: a bundle without it was cut off

`tar` reads them. Files that change while they are read are read again, so each is there in one of its versions.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import stat
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from brickyard.machine import files

HEAD, MANIFEST, CHECKSUM = "bundle.json", "manifest.json", "manifest.sha256"
FORMAT = 1
TRIES = 5  # of a file that changes while it is read
PAUSE_S = 0.05  # before the first of them; also what the times of a file system may be behind
_PIECE = 1 << 20
_XATTR = "SCHILY.xattr."  # as GNU tar and star name extended attributes
_REPLACED = (errno.ELOOP, errno.ENXIO)  # what was a file is a link or a socket now
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # NONBLOCK: opening a FIFO must not hang


class BundleError(Exception):
    """The bundle cannot be used. The message continues a sentence that begins with its name."""


class Unreadable(Exception):
    """A file that belongs into the bundle cannot be read. The message names it."""


class Entry(NamedTuple):
    """What the manifest says of a name. `sha256`: of a file's content, or of where a link leads; "" for a directory."""

    kind: str  # file, directory, link
    sha256: str
    size: int


class BundleWriter:
    """Writes a bundle to a stream. Raises OSError if that fails."""

    def __init__(self, stream: BinaryIO, kind: str, about: dict[str, Any], *, moved: Callable[[int], None] = lambda _: None):
        self._tar = tarfile.TarFile(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT)
        self._moved = moved
        self.entries: dict[str, Entry] = {}
        self.unsteady: list[str] = []  # names of files that changed each time that they were read
        head = json.dumps({"format": FORMAT, "kind": kind, **about}).encode()
        self._head = _sha256(head)
        self._put(HEAD, head)

    def data(self, name: str, content: bytes, *, mode: int = 0o600) -> None:
        """Adds a file with that content."""
        self._put(name, content, mode=mode)
        self.entries[name] = Entry("file", hashlib.sha256(content).hexdigest(), len(content))

    def add(self, name: str, path: Path, *, below: Path | None = None) -> bool:
        """Adds a file, directory or link; returns False if there is none (any more), or if it is none of these. No link is
        followed on the way from `below`, which is the path's directory if it is not given. Raises Unreadable."""
        try:
            with files.directory_of(path, below=below or path.parent) as above:
                found = os.stat(path.name, dir_fd=above, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    return self._file(name, path, above)
                if stat.S_ISDIR(found.st_mode):
                    with self._opened(path, above, files.DIRECTORY) as handle:
                        info = _described(name, found, tarfile.DIRTYPE, _attributes(handle))
                    self._tar.addfile(info)
                    self.entries[name] = Entry("directory", "", 0)
                elif stat.S_ISLNK(found.st_mode):
                    info = _described(name, found, tarfile.SYMTYPE, {})
                    info.linkname = _target(path, above)
                    self._tar.addfile(info)
                    self.entries[name] = Entry("link", _sha256(os.fsencode(info.linkname)), 0)
                else:
                    return False  # a socket, a FIFO: nothing that could be kept
        except (FileNotFoundError, NotADirectoryError):
            self.entries.pop(name, None)
            return False
        finally:
            self._tar.members.clear()  # type: ignore[attr-defined] # it would remember all of them
        return True

    def link(self, name: str, target: str) -> None:
        """Adds a link that leads there."""
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mtime = tarfile.SYMTYPE, target, int(time.time())
        self._tar.addfile(info)
        self.entries[name] = Entry("link", _sha256(os.fsencode(target)), 0)

    def kind(self, name: str) -> str:
        """What a name is here; "" if it does not count."""
        return self.entries[name].kind if name in self.entries else ""

    def leave_out(self, name: str) -> None:
        """Makes a name not count."""
        self.entries.pop(name, None)

    def close(self) -> None:
        """Adds the manifest and ends the bundle."""
        manifest = json.dumps({"head": self._head, "entries": self.entries}, separators=(",", ":")).encode()
        self._put(MANIFEST, manifest)
        self._put(CHECKSUM, _sha256(manifest).encode())
        self._tar.close()

    def _put(self, name: str, content: bytes, *, mode: int = 0o600) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(content), mode, int(time.time())
        self._tar.addfile(info, io.BytesIO(content))
        self._tar.members.clear()  # type: ignore[attr-defined] # as above

    def _file(self, name: str, path: Path, above: int) -> bool:
        for number in range(TRIES):
            if number:
                time.sleep(PAUSE_S * 2**number)
            if (steady := self._read(name, path, above)) is None:
                return False
            if steady:
                return True
        self.unsteady.append(name)
        return True

    def _read(self, name: str, path: Path, above: int) -> bool | None:
        """Adds the file as it is; returns whether it stayed as it was meanwhile, or None if it is no file."""
        with self._opened(path, above, _OPEN) as handle:
            before = os.fstat(handle)
            if not stat.S_ISREG(before.st_mode):
                return None
            if time.time_ns() - before.st_mtime_ns < PAUSE_S * 1e9:
                time.sleep(PAUSE_S)  # a change within one tick of the file system's clock would not show
                before = os.fstat(handle)
            content = _Content(handle, before.st_size, path, self._moved)
            self._tar.addfile(_described(name, before, tarfile.REGTYPE, _attributes(handle)), content)
            after = os.fstat(handle)
        self.entries[name] = Entry("file", content.sha256(), before.st_size)
        return not content.short and (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)

    @contextlib.contextmanager
    def _opened(self, path: Path, above: int, flags: int) -> Iterator[int]:
        try:
            handle = os.open(path.name, flags, dir_fd=above)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            if error.errno in _REPLACED:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
            raise Unreadable(f"cannot read {path}: {error.strerror}") from error
        try:
            yield handle
        finally:
            os.close(handle)


class _Content(io.RawIOBase):
    """So many bytes of a file, whatever becomes of it: what it lacks is zeros."""

    def __init__(self, handle: int, size: int, path: Path, moved: Callable[[int], None]) -> None:
        self._handle, self._path, self._moved = handle, path, moved
        self._at, self._size = 0, size
        self._sum = hashlib.sha256()
        self.short = False

    def read(self, size: int = -1) -> bytes:
        wanted = min(size if size >= 0 else _PIECE, self._size - self._at)
        try:
            data = os.pread(self._handle, wanted, self._at) if wanted else b""
        except OSError as error:
            raise Unreadable(f"cannot read {self._path}: {error.strerror}") from error
        if wanted and not data:
            self.short, data = True, bytes(wanted)
        while len(data) < wanted:  # tarfile takes a short read for the end
            more = os.pread(self._handle, wanted - len(data), self._at + len(data))
            if not more:
                self.short, more = True, bytes(wanted - len(data))
            data += more
        self._at += len(data)
        self._sum.update(data)
        self._moved(len(data))
        return data

    def sha256(self) -> str:
        return self._sum.hexdigest()


class BundleReader:
    """Reads a bundle from a stream, once, from its beginning. Raises BundleError. `about`: what it says of itself."""

    def __init__(self, stream: BinaryIO, kind: str) -> None:
        try:
            self._tar = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115 - ends with the stream
            first = self._tar.next()
            content = self._tar.extractfile(first) if first is not None and first.name == HEAD else None
            head = content.read(_PIECE) if content is not None else b"{}"
            about = json.loads(head)
        except (tarfile.TarError, ValueError, EOFError) as error:
            raise BundleError("is no archive of Brickyard, or its beginning is damaged") from error
        if not isinstance(about, dict) or about.get("kind") != kind:
            found = f"holds {about['kind']}" if isinstance(about, dict) and about.get("kind") else "is no archive of Brickyard"
            raise BundleError(f"{found}, and {kind} is needed")
        if about.get("format") != FORMAT:
            raise BundleError(
                f"was written by Brickyard {about.get('version', 'of another version')} in format {about.get('format')}, and "
                f"this one reads format {FORMAT}"
            )
        self.about: dict[str, Any] = about
        self._head = _sha256(head)

    def extract(
        self,
        into: Path | None,
        *,
        accepts: Callable[[str], bool],
        leads: Callable[[str, str], bool] = lambda _name, _target: True,
        moved: Callable[[int], None] = lambda _: None,
    ) -> dict[str, Entry]:
        """Writes what counts into an empty directory, or, without one, only checks it; returns the manifest. `accepts`: whether a
        name belongs there. `leads`: whether a link of that name may lead there. Raises BundleError for what is damaged or not
        accepted, and OSError if it cannot be written."""
        found, links, info = dict[str, Entry](), dict[str, tarfile.TarInfo](), None
        last, written = HEAD, dict[str, tarfile.TarInfo]()
        try:
            while (info := self._tar.next()) is not None:
                self._tar.members.clear()  # type: ignore[attr-defined] # as above
                if info.name == MANIFEST:
                    break
                _check(info, accepts, links)
                if info.issym() and not leads(info.name, info.linkname):
                    raise BundleError(f"is refused: the link {info.name} leads to {info.linkname}, outside of its directory")
                last = info.name
                found[info.name] = self._one(info, into, links, moved)
                written[info.name] = info
            entries = self._manifest(info, last)
        except (tarfile.TarError, EOFError, UnicodeDecodeError) as error:
            raise BundleError(f"is damaged after {last}: {error}") from error
        for name, entry in entries.items():
            if (there := found.get(name)) != entry:
                how = "is missing" if there is None else "has another content than when it was written"
                raise BundleError(f"is damaged: {name} {how}")
        if into is not None:
            _finish(into, written, links, entries)
        return entries

    def _one(
        self, info: tarfile.TarInfo, into: Path | None, links: dict[str, tarfile.TarInfo], moved: Callable[[int], None]
    ) -> Entry:
        if info.issym():
            links[info.name] = info
            return Entry("link", _sha256(os.fsencode(info.linkname)), 0)
        if info.isdir():
            if into is not None:
                (into / info.name).mkdir(mode=0o700, parents=True, exist_ok=True)
            return Entry("directory", "", 0)
        content, summed, size = self._tar.extractfile(info), hashlib.sha256(), 0
        assert content is not None  # noqa: S101 - a file
        with contextlib.ExitStack() as opened:
            target = None
            if into is not None:
                path = into / info.name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.unlink(missing_ok=True)  # an earlier member of this name
                target = opened.enter_context(path.open("xb"))
            while data := content.read(_PIECE):
                summed.update(data)
                size += len(data)
                moved(len(data))
                if target is not None:
                    target.write(data)
            if target is not None:
                target.flush()  # a write after it would change the time
                _restore(target.fileno(), info)
        return Entry("file", summed.hexdigest(), size)

    def _manifest(self, info: tarfile.TarInfo | None, last: str) -> dict[str, Entry]:
        if info is None:
            raise BundleError(f"is cut off, or damaged after {last}")
        content = self._tar.extractfile(info)
        manifest = content.read() if content is not None else b""
        after = self._tar.next()
        checksum = self._tar.extractfile(after) if after is not None and after.name == CHECKSUM else None
        if checksum is None:
            raise BundleError(f"is cut off after {MANIFEST}")
        if checksum.read().decode("ascii", "replace") != _sha256(manifest):
            raise BundleError(f"is damaged: {MANIFEST} has another content than when it was written")
        found = json.loads(manifest)
        if found["head"] != self._head:
            raise BundleError(f"is damaged: {HEAD} has another content than when it was written")
        return {name: Entry(*entry) for name, entry in found["entries"].items()}


def _check(info: tarfile.TarInfo, accepts: Callable[[str], bool], links: dict[str, tarfile.TarInfo]) -> None:
    """Refuses what could reach out of the directory. Links are made when all else is there, so none is ever followed."""
    parts = info.name.split("/")
    if not info.name or "\0" in info.name or info.name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise BundleError(f"is refused: the name {info.name!r} leads out of its directory")
    if not (info.isreg() or info.isdir() or info.issym()):
        raise BundleError(f"is refused: {info.name} is neither a file nor a directory nor a symbolic link")
    if not accepts(info.name):
        raise BundleError(f"is refused: {info.name} does not belong there")
    if any("/".join(parts[:end]) in links for end in range(1, len(parts))):
        raise BundleError(f"is refused: {info.name} is below a link")


def _finish(
    into: Path, written: dict[str, tarfile.TarInfo], links: dict[str, tarfile.TarInfo], entries: dict[str, Entry]
) -> None:
    """Removes what does not count, makes the links, and gives directories their modes and times."""
    for name, info in written.items():
        if name not in entries and info.isreg():
            (into / name).unlink(missing_ok=True)
    for name, info in links.items():
        if entries.get(name, Entry("", "", 0)).kind == "link":
            path = into / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to(info.linkname)
            if os.geteuid() == 0:
                os.lchown(path, info.uid, info.gid)
    for name in sorted((name for name, info in written.items() if info.isdir()), key=lambda name: -name.count("/")):
        handle = os.open(into / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _restore(handle, written[name])
        finally:
            os.close(handle)


def _restore(handle: int, info: tarfile.TarInfo) -> None:
    """Gives an open file the owner, mode, time and attributes of a member. Never setuid: nothing that is kept needs it."""
    if os.geteuid() == 0:
        os.fchown(handle, info.uid, info.gid)
    for name, value in info.pax_headers.items():
        if name.startswith(_XATTR + "user."):
            with contextlib.suppress(OSError):  # a file system that keeps none
                os.setxattr(handle, name.removeprefix(_XATTR), os.fsencode(value))
    os.fchmod(handle, info.mode & 0o1777)
    seconds, _, rest = info.pax_headers.get("mtime", str(int(info.mtime))).partition(".")
    changed = int(seconds) * 10**9 + int(rest.ljust(9, "0")[:9] or 0)
    os.utime(handle, ns=(changed, changed))


def _described(name: str, found: os.stat_result, kind: bytes, attributes: dict[str, str]) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid = kind, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
    info.size = found.st_size if kind == tarfile.REGTYPE else 0
    nanoseconds = max(found.st_mtime_ns, 0)
    info.mtime = nanoseconds // 10**9
    info.pax_headers = {"mtime": f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}", **attributes}
    return info


def _target(path: Path, above: int) -> str:
    """Where a link leads, whatever that is. Raises FileNotFoundError if it is none any more."""
    try:
        return os.readlink(path.name, dir_fd=above)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error


def _attributes(path: int) -> dict[str, str]:
    """The extended attributes that any program can write. Linux only."""
    found = {}
    with contextlib.suppress(OSError, AttributeError):
        for name in os.listxattr(path):
            if name.startswith("user."):
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    found[_XATTR + name] = os.getxattr(path, name).decode()
    return found


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
