"""Finds and reads a file of a package on the configured package index, as a stream.

For the few files that are worth it: uv installs everything else. It understands what pip and uv are usually configured with
(indexes, find-links, credentials in URLs and in netrc, certificates, proxies). Whatever needs more (keyrings, uv.toml) is uv's.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import netrc
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from brickyard.machine.packageindex import uv_environment, uv_files

DEFAULT_INDEX = "https://pypi.org/simple"
SILENCE_S = 30.0
PAGE_LIMIT = 64 << 20
ATTEMPTS = 5
_PAGES = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_NETWORK = (OSError, http.client.HTTPException)  # OSError includes URLError, timeouts and TLS errors


class FileMissing(Exception):
    """The file cannot be had here; the message says why."""


class Place(NamedTuple):
    """Where files of packages are: pages that link to them (`pages`) and directories of this machine."""

    url: str
    is_index: bool  # it has a page for each package


def places(environ: Mapping[str, str]) -> list[Place]:
    """Returns where uv would look, in its order. Raises FileMissing if that is written where only uv reads it."""
    if environ.get("UV_CONFIG_FILE") or any(path.is_file() for path in uv_files(environ)):
        raise FileMissing("uv has a configuration file")
    if environ.get("UV_OFFLINE", "").lower() in ("1", "true", "yes"):
        raise FileMissing("UV_OFFLINE is set")
    known = {**environ, **uv_environment(environ)}
    found = [Place(_url(each), is_index=False) for each in re.split(r"[,\s]+", known.get("UV_FIND_LINKS", "")) if each]
    more = f"{known.get('UV_INDEX', '')} {known.get('UV_EXTRA_INDEX_URL', '')}".split()
    last = known.get("UV_DEFAULT_INDEX") or known.get("UV_INDEX_URL") or DEFAULT_INDEX
    return found + [Place(_url(re.sub(r"^[\w.-]+=", "", each)), is_index=True) for each in (*more, last)]


class PackageFiles:
    """The places that an environment names, and how they are read."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._places = places(environ)
        cert = {**environ, **uv_environment(environ)}.get("SSL_CERT_FILE")
        secure = ssl.create_default_context(cafile=cert if cert and Path(cert).is_file() else None)
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=secure))

    def find(self, package: str, filename: str) -> str:
        """Returns the file's URL. Raises FileMissing."""
        troubles = []
        for place in self._places:
            try:
                if url := self._look(place, package, filename):
                    return url
            except (*_NETWORK, ValueError) as error:
                troubles.append(f"{_shown(place.url)}: {error}")
        raise FileMissing("; ".join(troubles) or f"no index has {filename}")

    def read(self, url: str, *, look: Callable[[], None]) -> Iterator[bytes]:
        """Yields the file in pieces, and calls `look` after each. A transfer that breaks is continued. Raises FileMissing, and
        what `look` raises."""
        done, left = 0, ATTEMPTS
        while True:
            try:
                with contextlib.closing(self._open(url, {"Range": f"bytes={done}-"} if done else {})) as response:
                    if done and response.status != http.HTTPStatus.PARTIAL_CONTENT:
                        raise FileMissing(f"{_shown(url)} was cut off after {done >> 20} MiB, and cannot be continued")
                    expected = response.length
                    begun = done
                    while piece := response.read1(1 << 20):
                        done += len(piece)
                        yield piece
                        look()
                if expected is None or done - begun >= expected:
                    return
                raise ConnectionError("the connection was closed too early")
            except _NETWORK as error:
                left -= 1
                if not left:
                    raise FileMissing(f"{_shown(url)}: {error}") from error

    def _look(self, place: Place, package: str, filename: str) -> str:
        """Returns the file's URL at this place, or ""."""
        if place.url.startswith("file:"):
            directory = Path(urllib.request.url2pathname(urllib.parse.urlsplit(place.url).path))
            directory = directory / package if place.is_index else directory
            if (directory / filename).is_file():
                return (directory / filename).as_uri()
            page = directory / "index.html" if directory.is_dir() else directory
            base, text, is_json = page.as_uri(), page.read_text() if page.is_file() else "", False
        else:
            wanted = f"{place.url.rstrip('/')}/{package}/" if place.is_index else place.url
            try:
                with contextlib.closing(self._open(wanted, {"Accept": _PAGES})) as response:
                    base, text = response.url, response.read(PAGE_LIMIT).decode(errors="replace")
                    is_json = response.headers.get_content_type().endswith("json")
            except urllib.error.HTTPError as error:
                if error.code == http.HTTPStatus.NOT_FOUND:
                    return ""
                raise
        links = [str(each["url"]) for each in json.loads(text)["files"]] if is_json else _links(text)
        found = next((link for link in links if _name(link) == filename), "")
        return _credentials_of(place.url, urllib.parse.urljoin(base, found).partition("#")[0]) if found else ""

    def _open(self, url: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "file":
            return _File(Path(urllib.request.url2pathname(parts.path)))  # type: ignore[return-value] # as far as it is used here
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        request = urllib.request.Request(bare.geturl(), headers=dict(headers))  # noqa: S310 - `_url` has checked the scheme
        if login := _login(parts):
            # Not sent on to where a redirection leads.
            request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        response: http.client.HTTPResponse = self._opener.open(request, timeout=SILENCE_S)
        return response


class _File:
    """A file of this machine, with what is used of a response."""

    status = http.HTTPStatus.OK

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.length = path.stat().st_size

    def read1(self, size: int) -> bytes:
        return self._file.read(size) or b""

    def close(self) -> None:
        self._file.close()


class Pieces(io.RawIOBase):
    """Pieces as a file that can be read once, front to back."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # what callers pass
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _url(text: str) -> str:
    """Returns a place as a URL. Raises FileMissing for kinds that are not known here."""
    if "://" not in text and not text.startswith("file:"):
        return Path(text).absolute().as_uri()
    if urllib.parse.urlsplit(text).scheme not in ("https", "http", "file"):
        raise FileMissing(f"{_shown(text)} is neither http, https nor a file")
    return text


def _login(parts: urllib.parse.SplitResult) -> str:
    """Returns user and password for a host: the URL's, else netrc's, else ""."""
    if parts.username:
        return f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        if (found := netrc.netrc().authenticators(parts.hostname or "")) is not None:
            return f"{found[0]}:{found[2]}"
    return ""


def _credentials_of(index: str, url: str) -> str:
    """Returns the URL with the index's credentials, if it is on the same host and has none."""
    ours, theirs = urllib.parse.urlsplit(index), urllib.parse.urlsplit(url)
    if "@" in ours.netloc and ours.netloc.rpartition("@")[2] == theirs.netloc and ours.scheme == theirs.scheme:
        return theirs._replace(netloc=ours.netloc).geturl()
    return url


def _shown(url: str) -> str:
    """Returns a URL without credentials."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _name(link: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(link).path).rpartition("/")[2]


def _links(page: str) -> list[str]:
    found: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(value for name, value in attrs if tag == "a" and name == "href" and value)

    Links().feed(page)
    return found
