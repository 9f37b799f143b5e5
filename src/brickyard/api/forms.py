"""multipart/form-data, as old clients send a command or a file: in memory, or as it arrives where a file may be large."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from email.message import Message

from brickyard.domain.errors import MalformedRequest

MAX_PARTS = 20
MAX_PART_HEAD = 8 * 1024
_CUT_SHORT = "The form does not end with its boundary: it was cut short, or its Content-Type names another."
_NAMELESS = "A part of the form has no name. Give each a Content-Disposition with one."


def form_boundary(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The boundary that the content type names, or b"" when the body is no form."""
    for key, value in headers:
        if key == b"content-type" and value.lstrip().lower().startswith(b"multipart/form-data"):
            boundary = _parameter(value.decode("latin-1"), "content-type", "boundary").encode("latin-1")
            if not 0 < len(boundary) <= 200:
                raise MalformedRequest("The form has no usable boundary. Give one in its Content-Type.")
            return boundary
    return b""


def form_parts(body: bytes, boundary: bytes) -> dict[str, bytes]:
    """Name -> content of every part; of several with one name, the last. Raises MalformedRequest."""
    chunks = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if len(chunks) < 2 or not chunks[-1].startswith(b"--"):
        raise MalformedRequest(_CUT_SHORT)
    if len(chunks) - 2 > MAX_PARTS:
        raise MalformedRequest(f"The form has more than {MAX_PARTS} parts.")
    parts: dict[str, bytes] = {}
    for chunk in chunks[1:-1]:
        head, found, content = chunk.partition(b"\r\n\r\n")
        name = _part_name(head)
        if not found or not name:
            raise MalformedRequest(_NAMELESS)
        parts[name] = content
    return parts


async def stream_parts(chunks: AsyncIterator[bytes], boundary: bytes) -> AsyncIterator[tuple[str, bytes]]:
    """(name, piece) for every piece of every part, in their order; an empty piece begins each part. Raises MalformedRequest.

    Keeps no more than a chunk and a boundary of the body.
    """
    source, delimiter = _Source(chunks), b"\r\n--" + boundary
    async for _ in source.until(delimiter):
        pass  # what stands before the first part means nothing
    for _ in range(MAX_PARTS):
        if await source.starts_with(b"--"):
            return
        name = _part_name(await source.head())
        if not name:
            raise MalformedRequest(_NAMELESS)
        yield name, b""
        async for piece in source.until(delimiter):
            yield name, piece
    if not await source.starts_with(b"--"):
        raise MalformedRequest(f"The form has more than {MAX_PARTS} parts.")


class _Source:
    """A body that arrives in chunks, read up to what is looked for."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = bytearray(b"\r\n")  # so that a delimiter at the very beginning is one

    async def until(self, delimiter: bytes) -> AsyncIterator[bytes]:
        """What comes before the delimiter, which is consumed."""
        while (at := self._buffer.find(delimiter)) < 0:
            sure = len(self._buffer) - len(delimiter) + 1  # bytes that cannot be part of the delimiter
            if sure > 0:
                yield bytes(self._buffer[:sure])
                del self._buffer[:sure]
            await self._more()
        if at:
            yield bytes(self._buffer[:at])
        del self._buffer[: at + len(delimiter)]

    async def starts_with(self, mark: bytes) -> bool:
        while len(self._buffer) < len(mark):
            await self._more()
        return self._buffer.startswith(mark)

    async def head(self) -> bytes:
        """A part's headers, consumed with the empty line after them."""
        while (at := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MAX_PART_HEAD:
                raise MalformedRequest(_NAMELESS)
            await self._more()
        head = bytes(self._buffer[:at])
        del self._buffer[: at + 4]
        return head

    async def _more(self) -> None:
        try:
            self._buffer += await anext(self._chunks)
        except StopAsyncIteration:
            raise MalformedRequest(_CUT_SHORT) from None


def _part_name(head: bytes) -> str:
    for line in head[:MAX_PART_HEAD].decode("utf-8", "replace").split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-disposition":
            return _parameter(value.strip(), "content-disposition", "name")
    return ""


def _parameter(value: str, header: str, name: str) -> str:
    message = Message()
    message[header] = value
    found = message.get_param(name, header=header)
    return found if isinstance(found, str) else ""
