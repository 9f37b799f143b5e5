"""Which URLs settings may have."""

from __future__ import annotations

from urllib.parse import urlsplit

_DATABASES = ("postgresql", "postgresql+psycopg", "sqlite")


def is_database(url: str) -> bool:
    """Whether the URL names a supported kind of database."""
    try:
        parts = urlsplit(url)
        return not url or (parts.scheme in _DATABASES and (parts.port is None or bool(parts.hostname)))
    except ValueError:  # an invalid port
        return False


def is_origin(url: str) -> bool:
    """Whether the URL is a server's origin with nothing after it. Empty is allowed."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.username is None
        return not url or (whole and parts.path in ("", "/") and not parts.query and not parts.fragment)
    except ValueError:  # an invalid port
        return False
