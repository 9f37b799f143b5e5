"""multipart/form-data, which old clients use for commands and files: read in memory, or as it arrives for large files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from brickyard.domain.errors import MalformedRequest

MAX_PARTS = 20
MAX_BOUNDARY = 200  # bytes
_CUT_SHORT = "The form does not end with its boundary: it was cut short, or its Content-Type names a different boundary."
_NAMELESS = "A part of the form has no name. Give each a Content-Disposition with one."


def form_boundary(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The boundary from the content type, or b"" if the body is not a form. Raises MalformedRequest."""
    for key, value in headers:
        if key == b"content-type":
            kind, options = parse_options_header(value)
            if kind == b"multipart/form-data":
                boundary = options.get(b"boundary", b"")
                if not 0 < len(boundary) <= MAX_BOUNDARY:
                    raise MalformedRequest("The form has no usable boundary. Give one in its Content-Type.")
                return boundary
    return b""


def form_parts(body: bytes, boundary: bytes) -> dict[str, bytes]:
    """Name -> content of every part. If a name is repeated, the last part counts. Raises MalformedRequest."""
    form, parts = _Form(boundary), dict[str, list[bytes]]()
    for name, piece in form.read(body):
        if piece:
            parts[name].append(piece)
        else:
            parts[name] = []
    form.check_end()
    return {name: b"".join(pieces) for name, pieces in parts.items()}


async def stream_parts(chunks: AsyncIterator[bytes], boundary: bytes) -> AsyncIterator[tuple[str, bytes]]:
    """Yields (name, piece) for every piece of every part, in order; an empty piece begins each part. Raises MalformedRequest.

    Holds at most a chunk and a boundary of the body.
    """
    form = _Form(boundary)
    async for chunk in chunks:
        for found in form.read(chunk):
            yield found
        if form.ended:
            return
    form.check_end()


class _Form:
    """Parses a form piece by piece."""

    def __init__(self, boundary: bytes) -> None:
        self.ended = False
        self._parts = 0
        self._name = ""
        self._header, self._value = b"", b""
        self._found: list[tuple[str, bytes]] = []
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_begin": self._begin_header,
                "on_header_field": self._add_to_header,
                "on_header_value": self._add_to_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._begin_content,
                "on_part_data": self._add_content,
                "on_end": self._end,
            },
        )

    def read(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """The pieces that the chunk adds, in the format of `stream_parts`. Raises MalformedRequest."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise MalformedRequest(f"The form cannot be read: {error}.") from error
        found, self._found = self._found, []
        return found

    def check_end(self) -> None:
        """Raises MalformedRequest if the form is incomplete."""
        if not self.ended:
            raise MalformedRequest(_CUT_SHORT)

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise MalformedRequest(f"The form has more than {MAX_PARTS} parts.")
        self._name = ""

    def _begin_header(self) -> None:
        self._header, self._value = b"", b""

    def _add_to_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, options = parse_options_header(self._value)
            self._name = options.get(b"name", b"").decode("utf-8", "replace")

    def _begin_content(self) -> None:
        if not self._name:
            raise MalformedRequest(_NAMELESS)
        self._found.append((self._name, b""))

    def _add_content(self, data: bytes, start: int, end: int) -> None:
        self._found.append((self._name, data[start:end]))

    def _end(self) -> None:
        self.ended = True
