"""The token of the workspace, from a file that may be replaced at any time."""

from __future__ import annotations

import re
from pathlib import Path

_TOKEN = re.compile(r"[!-~]{1,8192}")
_OTHERS = 0o077


class TokenTrouble(Exception):
    """The file has no token: the message says why."""


class TokenFile:
    """Reads it again when it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = ""

    def read(self) -> str:
        """The token. Raises TokenTrouble."""
        try:
            found = self.path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._seen:
                self._token, self._seen = _parsed(self.path), seen
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise TokenTrouble(f"--token-file {self.path} cannot be read: {why}.") from error
        return self._token

    def seen_by_others(self) -> bool:
        """Whether other users of this machine may read the file."""
        return bool(self.path.stat().st_mode & _OTHERS)


def _parsed(path: Path) -> str:
    token = path.read_text().strip()
    if not _TOKEN.fullmatch(token):
        raise TokenTrouble(f"--token-file {path} must hold one access token and nothing else.")
    return token
