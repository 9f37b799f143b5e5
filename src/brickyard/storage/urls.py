"""Parses `storage_url`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

RULE = (
    "file:///an/absolute/path or /an/absolute/path, a directory that all servers and nodes mount (object stores are not "
    "supported: programs open its files), or left out for the data directory"
)


def directory(url: str) -> Path | None:
    """The directory, or None for an empty URL, which means the data directory. Raises ValueError if unsupported."""
    if not url:
        return None
    path = url
    if not url.startswith("/"):
        parts = urlsplit(url)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            raise ValueError(RULE)
        path = unquote(parts.path)
    if not path.startswith("/") or "\0" in path:
        raise ValueError(RULE)
    return Path(path)
