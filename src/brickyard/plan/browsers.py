"""Which requests of a browser count as its user's own: decisions from headers alone. Pure.

A browser sends cookies along with requests that other pages make. So a cookie alone never changes anything, and where the browser
says that another page asks, it does not count at all.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]{0,2000}")  # printable ASCII without a backslash; not the beginning of another host
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def own_request(*, own_origin: str, origin: str, fetch_site: str) -> bool:
    """Whether one of our own pages asks, or the user directly. Every browser sends at least one of these headers with a request
    that changes something; programs need send neither."""
    return origin in ("", own_origin) and fetch_site in ("", "same-origin", "none")


def navigation(*, fetch_mode: str, fetch_dest: str) -> bool:
    """Whether a browser opens a page as a whole, from wherever: no other page sees what comes back."""
    return fetch_mode in ("", "navigate") and fetch_dest in ("", "document")


def way_back(target: str) -> str:
    """Where to go after logging in: a path of this server, or its start."""
    return target if _PATH.fullmatch(target) else "/"


def here_by_name(host: str) -> bool:
    """Whether a Host header names this machine itself, with any port: another site's name can be made to lead here (DNS
    rebinding), and a page of that site would then have our address as its own."""
    try:
        return urlsplit(f"//{host}").hostname in _LOOPBACK and "@" not in host
    except ValueError:
        return False


def loopback(redirect_uri: str) -> str:
    """The origin of a redirect URI that leads to a program on the user's own machine; "" for every other one."""
    try:
        parts = urlsplit(redirect_uri)
        port = parts.port
    except ValueError:
        return ""
    plain = parts.scheme == "http" and parts.username is None and not parts.query and not parts.fragment
    if not plain or parts.hostname not in _LOOPBACK or not port or not _PATH.fullmatch(parts.path or "/"):
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"http://{host}:{port}" if parts.netloc == f"{host}:{port}" else ""
