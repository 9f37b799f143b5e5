"""What a volume is called, and what of it clients see."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Final, NamedTuple

from brickyard.domain.errors import InvalidParameterValue

LEVELS: Final = 3  # catalog, schema, volume
_NAME = re.compile(r"[^\x00-\x20./\x7f]{1,255}")


class Volume(NamedTuple):
    """A volume, with the time its directory was made or last changed in epoch milliseconds."""

    parts: tuple[str, ...]
    modified_ms: int
    comment: str = ""

    @property
    def full_name(self) -> str:
        return ".".join(self.parts)

    @property
    def volume_id(self) -> str:
        """Always the same for a name."""
        return str(uuid.UUID(bytes=hashlib.blake2b(self.full_name.encode(), digest_size=16).digest()))


def names_of(full_name: str, *, levels: int = LEVELS) -> tuple[str, ...]:
    """The parts of a name such as main.default.files."""
    parts = tuple(full_name.split("."))
    wrong = [part for part in parts if not _NAME.fullmatch(part) or len(part.encode()) > 255]
    if len(parts) != levels or wrong:
        shape = ".".join(("catalog", "schema", "volume")[:levels])
        raise InvalidParameterValue(
            f"{full_name[:300]!r} is not a name of the form {shape}. Each part has 1 to 255 bytes, without dots, slashes, spaces "
            "and control characters."
        )
    return parts
