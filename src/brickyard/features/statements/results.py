"""Files of results: a directory for each statement, an Arrow stream for each chunk."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from brickyard.machine.files import write_atomic

PIECE = 1 << 20  # bytes that are read at once


class Compressor(Protocol):
    """Of one LZ4 frame."""

    def begin(self) -> bytes: ...
    def compress(self, data: bytes | memoryview) -> bytes: ...
    def flush(self) -> bytes: ...


class ChunkWriter:
    """Writes a chunk piece by piece; it exists from `commit` on. Methods block, and raise OSError. `size`: before compression."""

    def __init__(self, file: Path, *, compressed: bool) -> None:
        self._file = file
        self._temporary = file.with_name(f".{file.name}.{os.getpid()}")
        file.parent.mkdir(parents=True, exist_ok=True)
        self._open: BinaryIO = self._temporary.open("wb")
        self._frame: Compressor | None = None
        self.size = 0
        if compressed:
            import lz4.frame  # noqa: PLC0415 - only where it is used

            self._frame = lz4.frame.LZ4FrameCompressor(block_linked=False)
            self._open.write(self._frame.begin())

    def write(self, data: bytes | memoryview) -> None:
        """Append."""
        self.size += len(data)
        self._open.write(data if self._frame is None else self._frame.compress(data))

    def commit(self) -> None:
        """The chunk is whole."""
        if self._frame is not None:
            self._open.write(self._frame.flush())
        self._open.close()
        self._temporary.replace(self._file)

    def discard(self) -> None:
        """Forget what was written."""
        self._open.close()
        self._temporary.unlink(missing_ok=True)


class OpenChunk:
    """A chunk that is read, as it lies on disk."""

    def __init__(self, file: Path) -> None:
        self._open = file.open("rb")
        self.on_end: Callable[[], Awaitable[None]] | None = None  # done once all of it was sent
        self.size = os.fstat(self._open.fileno()).st_size

    async def pieces(self) -> AsyncIterator[bytes]:
        """All of it; one piece is in memory at a time."""
        while piece := await asyncio.to_thread(self._open.read, PIECE):
            yield piece
        if self.on_end is not None:
            await self.on_end()

    def close(self) -> None:
        self._open.close()


class ResultFiles:
    """Below one directory of the workspace's storage. Methods block, and raise OSError."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def write(self, statement_id: str, index: int, stream: bytes) -> None:
        """Write a chunk, whole or not at all."""
        file = self._file(statement_id, index)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, stream)

    def writer(self, statement_id: str, index: int, *, compressed: bool) -> ChunkWriter:
        """Write a chunk as its parts come."""
        return ChunkWriter(self._file(statement_id, index), compressed=compressed)

    def read(self, statement_id: str, index: int) -> bytes:
        return self._file(statement_id, index).read_bytes()

    def open(self, statement_id: str, index: int) -> OpenChunk:
        """Read a chunk piece by piece."""
        return OpenChunk(self._file(statement_id, index))

    def remove(self, statement_id: str) -> None:
        """Remove a result, if there is one."""
        shutil.rmtree(self._place / statement_id, ignore_errors=True)

    def _file(self, statement_id: str, index: int) -> Path:
        return self._place / statement_id / f"{index}.arrow"
