"""Which URLs settings may have."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_PORTS = {"http": 80, "https": 443}
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


def is_external(url: str) -> bool:
    """Whether the URL is an origin that another machine may reach: a name as the DNS has it, or the address of one machine."""
    host = urlsplit(url).hostname or "" if is_origin(url) else ""
    try:
        return not url or not ipaddress.ip_address(host).is_unspecified
    except ValueError:  # a name, or nothing
        return bool(_NAME.fullmatch(host))


def origin(url: str) -> str:
    """An origin as browsers write it: in lower case, without a slash and without the scheme's own port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" if parts.port in (None, _PORTS[parts.scheme]) else f"{parts.scheme}://{host}:{parts.port}"
