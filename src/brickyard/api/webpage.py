"""The files of the web page, which `ui/build.py` makes. They are the same for everybody and hold no data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

BUNDLE = Path(__file__).parents[1] / "webui"  # in a wheel, and in a checkout once it is built
_NAME = re.compile(r"[\w-]+\.[\w-]+(\.[\w-]+)*")
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))  # the best first


class Asset(NamedTuple):
    """A file; `encoding` is "" for one that is not compressed."""

    body: bytes
    content_type: str
    encoding: str


class WebPage:
    """Reads files when they are asked for: a checkout may be built, or built again, while the server runs."""

    def __init__(self, bundle: Path = BUNDLE) -> None:
        self._bundle = bundle
        self._kept: dict[Path, bytes] = {}  # names hold a digest of what is in the file, so that it never changes

    def index(self) -> str | None:
        """The page; None if it was not built."""
        try:
            return (self._bundle / "index.html").read_text()
        except OSError:
            return None

    def asset(self, name: str, accept_encoding: str) -> Asset | None:
        """A file of the page in the best encoding that the browser takes; None if there is no such file."""
        kind = _TYPES.get(Path(name).suffix)
        if kind is None or not _NAME.fullmatch(name):
            return None
        taken = {each.partition(";")[0].strip() for each in accept_encoding.split(",")}
        for encoding, suffix in _ENCODINGS:
            if encoding in taken and (body := self._read(self._bundle / f"{name}{suffix}")) is not None:
                return Asset(body, kind, encoding)
        body = self._read(self._bundle / name)
        return None if body is None else Asset(body, kind, "")

    def _read(self, path: Path) -> bytes | None:
        if path not in self._kept:
            try:
                self._kept[path] = path.read_bytes()
            except OSError:
                return None
        return self._kept[path]
