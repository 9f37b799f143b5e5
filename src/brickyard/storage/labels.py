"""What neither the path nor the content of a file says, kept in an extended attribute: it goes where the file goes.

Users' programs can write the attribute too, so nothing that protects anything depends on it. Some file systems keep none.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import Annotated, Final

import msgspec

from brickyard.domain.errors import InvalidParameterValue

_NAME: Final = "user.brickyard"
MAX_COMMENT: Final = 1024  # characters
_AT_EMPTY_PATH, _STATX_BTIME = 0x1000, 0x800
_STATX_SIZE, _BTIME_AT = 256, 80  # bytes of `struct statx`, and where its `stx_btime` is
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class Label(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`plain`: a file, whatever its first line says. `jupyter`: a notebook that came as one of Jupyter's. `created_ms`: when what
    it replaced was made; 0: it replaced nothing. `comment`: of a volume. `saved_by`: the user who wrote a notebook through
    the API, at `saved_ms`."""

    plain: bool = False
    jupyter: bool = False
    created_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    comment: Annotated[str, msgspec.Meta(max_length=MAX_COMMENT)] = ""
    saved_by: str = ""
    saved_ms: int = 0


_read = msgspec.json.Decoder(Label).decode


def label_of(file: int) -> Label:
    """The label of an open file or directory."""
    try:
        return _read(os.getxattr(file, _NAME))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return Label()


def put_label(file: int, label: Label) -> None:
    """Replaces the label. Raises InvalidParameterValue where the file system keeps none and it matters."""
    try:
        if label == Label():
            os.removexattr(file, _NAME)
        else:
            os.setxattr(file, _NAME, msgspec.json.encode(label))
    except OSError as error:
        if error.errno == errno.ENODATA:
            return
        if error.errno != errno.ENOTSUP:
            raise
        if label.plain:
            raise InvalidParameterValue(
                "The content begins with a notebook's header, and the workspace's file system keeps no extended attributes "
                "(user.*), so it cannot be kept as a file. Remove the header, or import it as a notebook."
            ) from error
        if label.comment:
            raise InvalidParameterValue(
                "comment cannot be kept: the workspace's file system has no extended attributes (user.*). Leave it out."
            ) from error


def created_ms(file: int) -> int:
    """When an open file or directory was made, or what it replaced: epoch milliseconds, never after its last change."""
    modified = os.fstat(file).st_mtime_ns // 1_000_000
    return min(modified, label_of(file).created_ms or _born_ms(file) or modified)


def _born_ms(file: int) -> int:
    """When the file system made it; 0 if that is unknown."""
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if _libc is None or _libc.statx(file, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer) != 0:
        return 0
    if not int.from_bytes(buffer.raw[:4], "little") & _STATX_BTIME:
        return 0
    seconds = int.from_bytes(buffer.raw[_BTIME_AT : _BTIME_AT + 8], "little", signed=True)
    nanoseconds = int.from_bytes(buffer.raw[_BTIME_AT + 8 : _BTIME_AT + 12], "little")
    return seconds * 1000 + nanoseconds // 1_000_000
