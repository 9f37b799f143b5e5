"""What the proxy of http port mappings changes in requests and answers. Pure.

The program behind a mapping is a user's: it gets no credential of the workspace, and what it answers must not reach beyond
its path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from brickyard.gateway import pages

COOKIE = b"port."  # how the names of the programs' cookies begin in browsers
MOST_COOKIES = 20  # in one answer
MOST_COOKIE_BYTES = 4096
_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
     b"transfer-encoding", b"upgrade"}
)  # fmt: skip
# Ours, or made anew for the program.
_NOT_PASSED = _HOP | {
    b"host", b"authorization", b"cookie", b"origin", b"referer", b"forwarded", b"x-real-ip", b"x-csrf-token",
    b"x-databricks-org-id", b"expect", b"accept-encoding", b"content-length",
}  # fmt: skip
_NOT_PASSED_PREFIXES = (b"x-forwarded-", b"sec-websocket-", b"access-control-request-")
_KEPT = frozenset(
    {b"content-type", b"content-language", b"content-disposition", b"content-encoding", b"content-range", b"content-length",
     b"cache-control", b"etag", b"last-modified", b"expires", b"vary", b"accept-ranges", b"retry-after", b"allow", b"age"}
)  # fmt: skip
# What scripts of the mapping's pages may do at its addresses with a pass: everything. Their origin is opaque.
ALLOWED = (
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
    (b"access-control-allow-headers", b"authorization, *"),
    (b"access-control-max-age", b"600"),
)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[!-:<-~]*")  # printable ASCII without a semicolon


class Place(NamedTuple):
    """Where a mapping is: `base` is its path, `given` the pass of a browser that follows it, `port` the internal port."""

    base: str
    given: str
    port: int
    strip_prefix: bool

    @property
    def prefix(self) -> str:
        """What all its addresses begin with."""
        return f"{self.base}/~{self.given}" if self.given else self.base

    def inside(self, path: str) -> str:
        """A path as the program sees it."""
        return path if self.strip_prefix else self.base + path

    def outside(self, path: str) -> str:
        """A path of the program as clients see it."""
        if path == self.prefix or path.startswith(self.prefix + "/"):
            return path
        if path == self.base or path.startswith(self.base + "/"):
            path = path[len(self.base) :]
        return f"{self.prefix}/{path.lstrip('/')}"


def request_headers(given: Iterable[tuple[bytes, bytes]], place: Place, *, client: str, scheme: str) -> list[tuple[str, str]]:
    """The headers for the program. Credentials of the workspace stay here; with a pass, an Authorization header that is no bearer
    is the program's own."""
    sent = [(name.lower(), value) for name, value in given]
    named = {name.strip().lower() for key, value in sent if key == b"connection" for name in value.split(b",")}
    found = [
        (name, value)
        for name, value in sent
        if name not in _NOT_PASSED and name not in named and not name.startswith(_NOT_PASSED_PREFIXES)
    ]
    values = dict(sent)
    authorization = values.get(b"authorization", b"")
    if place.given and authorization and authorization.split(b" ")[0].lower() not in (b"bearer", b"basic"):
        found.append((b"authorization", authorization))
    if cookies := _own_cookies([value for name, value in sent if name == b"cookie"]):
        found.append((b"cookie", cookies))
    host = f"localhost:{place.port}"  # programs that listen on loopback often refuse other names
    found += [(b"host", host.encode()), (b"accept-encoding", b"identity")]
    if b"origin" in values:
        found.append((b"origin", f"http://{host}".encode()))
    if b"content-length" in values:
        found.append((b"content-length", values[b"content-length"]))
    forwarded = {
        "x-forwarded-for": client,
        "x-forwarded-proto": scheme,
        "x-forwarded-host": values.get(b"host", b"").decode("latin-1"),
        "x-forwarded-prefix": place.prefix,
    }
    return [*((name.decode("latin-1"), value.decode("latin-1")) for name, value in found), *forwarded.items()]


def response_headers(
    given: Iterable[tuple[bytes, bytes]], place: Place, *, https: bool, rewritten: bool
) -> list[tuple[bytes, bytes]]:
    """The headers to send on: those that describe the content, redirects and cookies that stay within the mapping's path, and the
    walls around its pages."""
    sent = [(name.lower(), value) for name, value in given]
    kept = [(name, value) for name, value in sent if name in _KEPT and not (rewritten and name == b"content-length")]
    kept += [
        (b"location", _location(value.decode("latin-1"), place).encode("latin-1")) for name, value in sent if name == b"location"
    ]
    cookies = (_confined(value, place, https=https) for name, value in sent if name == b"set-cookie")
    kept += [(b"set-cookie", each) for each in [each for each in cookies if each][:MOST_COOKIES]]
    return [*kept, *pages.HEADERS, (b"access-control-expose-headers", b"*")]


def page(body: bytes, place: Place) -> bytes:
    """An HTML page with what it needs in an opaque origin, and with links to the mapping's own path leading there."""
    shimmed = pages.shimmed(body)
    if place.strip_prefix or not place.given:
        return shimmed
    base = place.base.encode()
    return re.sub(re.escape(base) + rb"(?!/~)(?![0-9])", place.prefix.encode(), shimmed)


def _location(target: str, place: Place) -> str:
    """A redirect as a path of the mapping, so that it never leads elsewhere. A relative one stays relative."""
    parts = urlsplit(target)
    query = f"?{parts.query}" if parts.query else ""
    if not parts.scheme and not parts.netloc and parts.path and not parts.path.startswith(("/", "\\")):
        return parts.path + query
    return place.outside(parts.path) + query


def _own_cookies(headers: Iterable[bytes]) -> bytes:
    """The program's cookies, under its own names for them."""
    parts = [part.strip() for header in headers for part in header.split(b";")]
    return b"; ".join(part[len(COOKIE) :] for part in parts if part.startswith(COOKIE))


def _confined(value: bytes, place: Place, *, https: bool) -> bytes:
    """A Set-Cookie header that concerns the mapping's path alone; b"" if it is none."""
    if len(value) > MOST_COOKIE_BYTES:
        return b""
    pair, *attributes = [part.strip() for part in value.split(b";")]
    name, equals, content = pair.partition(b"=")
    if not equals or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(content):
        return b""
    found = [COOKIE + name + b"=" + content, b"HttpOnly", b"SameSite=Lax"]
    path = "/"
    for each in attributes:
        key, _, said = each.partition(b"=")
        if key.lower() == b"path" and said.startswith(b"/") and _VALUE.fullmatch(said):
            path = said.decode("latin-1")
        elif key.lower() in (b"max-age", b"expires") and re.fullmatch(rb"[A-Za-z0-9 :,-]+", said):
            found.append(each)
    found.append(b"Path=" + place.outside(path).encode("latin-1"))
    return b"; ".join([*found, b"Secure"] if https else found)
