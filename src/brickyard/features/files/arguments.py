"""Checks the arguments of the files API: paths, blocks, form fields. Functions raise ApiError."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.files.errors import MaxBlockSizeExceeded

MAX_BLOCK = 1024 * 1024
MAX_FIELD = 8 * 1024  # bytes of a form's path
MAX_NAME = 255  # bytes, as on Linux
VOLUMES = "Volumes"
_ELSEWHERE = {VOLUMES: "the Files API (/api/2.0/fs)", "Workspace": "the Workspace API (/api/2.0/workspace)"}


def field(fields: Mapping[str, bytes], name: str) -> str:
    """The text of a form field."""
    try:
        return fields[name].decode()
    except KeyError as error:
        raise InvalidParameterValue(f"Missing required field: {name}") from error
    except UnicodeDecodeError as error:
        raise InvalidParameterValue(f"The form's {name} is not valid UTF-8.") from error


def flag(text: str) -> bool:
    """The value of the form's `overwrite`."""
    if text.lower() not in ("true", "false"):
        raise InvalidParameterValue(f"overwrite is {text!r}; it must be true or false.")
    return text.lower() == "true"


def parts_of(path: str) -> tuple[str, ...]:
    """The names of a path from the root down; they never lead outside."""
    inner = path.removeprefix("dbfs:")
    if not inner.startswith("/"):
        raise InvalidParameterValue(f"Path must be absolute: {path or '(empty)'}. Begin it with a slash.")
    parts = tuple(part for part in inner.split("/") if part not in ("", "."))
    if ".." in parts or "\x00" in inner:
        raise InvalidParameterValue(f"Path must not contain '..' or NUL: {path!r}.")
    if any(len(part.encode()) > MAX_NAME for part in parts):
        raise InvalidParameterValue(f"A name in the path {path[:100]}... is too long: {MAX_NAME} bytes are allowed.")
    return parts


def dbfs_parts(path: str) -> tuple[str, ...]:
    """The same for the DBFS API, which the other trees are not part of. Spark finds them below dbfs:/ under these names."""
    parts = parts_of(path)
    if parts and (api := _ELSEWHERE.get(parts[0])):
        raise InvalidParameterValue(f"The DBFS API does not serve /{parts[0]}. Use {api} for {path[:100]}.")
    return parts


def seen_parts(path: str) -> tuple[str, ...]:
    """The same for a call that only looks: the CLI lists /Volumes, whose catalogs it then reads with the Files API."""
    return (VOLUMES,) if parts_of(path) == (VOLUMES,) else dbfs_parts(path)


def file_of(path: str) -> tuple[str, ...]:
    """The same for the path of a file, which cannot be the root."""
    parts = dbfs_parts(path)
    if not parts:
        raise InvalidParameterValue(f"{path} is a directory; give the path of a file.")
    return parts


def shown(parts: tuple[str, ...]) -> str:
    """The path as text."""
    return "/" + "/".join(parts)


def block_of(data: str) -> bytes:
    """Decodes at most MAX_BLOCK bytes from base64."""
    if len(data) > MAX_BLOCK * 4 // 3 + 1024:
        raise _too_large(len(data) * 3 // 4)
    try:
        block = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _not_base64(str(error).lower()) from error
    # Text that decodes may still differ from the canonical encoding: characters after the padding, or bits that decoding ignores.
    # Both suggest that data was cut off or joined wrongly.
    if base64.b64encode(block) != data.encode():
        raise _not_base64("it goes on after its padding, or its last character holds bits that mean nothing")
    if len(block) > MAX_BLOCK:
        raise _too_large(len(block))
    return block


def _not_base64(why: str) -> InvalidParameterValue:
    return InvalidParameterValue(
        f"The data is not valid base64: {why}. Send the standard alphabet (with + and /), padded, without line breaks."
    )


def _too_large(size: int) -> MaxBlockSizeExceeded:
    return MaxBlockSizeExceeded(
        f"The data has {size} bytes; a block has at most {MAX_BLOCK}. Upload it with create, add-block and close."
    )
