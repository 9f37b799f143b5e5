"""multipart/form-data, as old clients send a command or a file: a few parts in a body that is in memory anyway."""

from __future__ import annotations

from collections.abc import Iterable
from email.message import Message

from brickyard.domain.errors import MalformedRequest

MAX_PARTS = 20
MAX_PART_HEAD = 8 * 1024


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
        raise MalformedRequest("The form does not end with its boundary: it was cut short, or its Content-Type names another.")
    if len(chunks) - 2 > MAX_PARTS:
        raise MalformedRequest(f"The form has more than {MAX_PARTS} parts.")
    parts: dict[str, bytes] = {}
    for chunk in chunks[1:-1]:
        head, found, content = chunk.partition(b"\r\n\r\n")
        name = _part_name(head)
        if not found or not name:
            raise MalformedRequest("A part of the form has no name. Give each a Content-Disposition with one.")
        parts[name] = content
    return parts


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
