"""What a snapshot holds: names, modes, and which chunks the contents are made of."""

from __future__ import annotations

import hashlib

import msgspec
import zstandard

FORMAT = 1
MAX_BYTES = 1 << 30  # of a manifest: some ten million files


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file's content: `length` bytes of a chunk (an index into `Manifest.chunks`)."""

    chunk: int
    offset: int
    length: int


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """What changes whenever a file does. Users' programs can set every time but this one (ctime)."""

    inode: int
    changed_ns: int


class File(msgspec.Struct, frozen=True, array_like=True):
    """`path` is relative, in the file system's own bytes."""

    path: bytes
    mode: int
    modified_ns: int
    size: int
    stamp: Stamp
    parts: tuple[Part, ...]


class Directory(msgspec.Struct, frozen=True, array_like=True):
    path: bytes
    mode: int
    modified_ns: int


class Link(msgspec.Struct, frozen=True, array_like=True):
    """A symbolic link, with its target as it is. Nothing of ours follows it."""

    path: bytes
    target: bytes


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Directories come before what is in them. `left_out`: sockets, pipes and devices."""

    format: int = FORMAT
    taken_ns: int
    chunks: tuple[bytes, ...] = ()
    directories: tuple[Directory, ...] = ()
    files: tuple[File, ...] = ()
    links: tuple[Link, ...] = ()
    left_out: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


_decode_manifest = msgspec.msgpack.Decoder(Manifest).decode


def encode(manifest: Manifest) -> tuple[bytes, str]:
    """The manifest as it is stored, and its SHA-256 in hex."""
    data = zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(manifest))
    return data, hashlib.sha256(data).hexdigest()


def decode(data: bytes, sha256: str) -> Manifest:
    """The manifest with that digest. Raises ValueError if this is not it."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError("the snapshot's manifest is not what its digest says")
    try:
        found = _decode_manifest(unpacked(data))
    except msgspec.MsgspecError as error:
        raise ValueError(f"the snapshot's manifest cannot be read: {error}") from error
    if found.format != FORMAT:
        raise ValueError(f"the snapshot has format {found.format}, and this version knows {FORMAT}")
    return found


def unpacked(data: bytes) -> bytes:
    """The msgpack of a stored manifest. Raises ValueError."""
    try:
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_BYTES)
    except zstandard.ZstdError as error:
        raise ValueError(f"the snapshot's manifest cannot be read: {error}") from error
