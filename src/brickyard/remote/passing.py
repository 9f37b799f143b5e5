"""Which requests of the page go on to the workspace, and what of them and of the answers is passed. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from urllib.parse import unquote_to_bytes

import msgspec

from brickyard.domain.errors import EndpointNotFound
from brickyard.remote.lacking import VALIDATION

PREFIXES = ("/api/", "/v1/")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_PATH = re.compile(rb"/(?:api|v1)/[!-~]{1,4000}")
# Lists of what is passed, not of what is not: the browser's cookies, origin and addresses stay here, and so do headers that
# concern one connection.
_ASKED = frozenset(
    {b"accept", b"accept-encoding", b"accept-language", b"content-type", b"range", b"if-none-match", b"last-event-id"}
)
_ANSWERED = frozenset(
    {b"content-type", b"content-length", b"content-encoding", b"content-disposition", b"content-range", b"content-language",
     b"accept-ranges", b"etag", b"last-modified", b"retry-after", b"x-request-id"}
)  # fmt: skip
# What the workspace sends is data. If a browser opens it as a page, it can neither run code nor act for the user here.
_WALLS = (
    (b"content-security-policy", b"sandbox; default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_SPECIFIES = re.compile(r"/api/2\.\d/clusters/(create|edit)/?")
_CONDITIONS = ("validate_only", "expected_spec")  # of ours: a workspace that does not know them would ignore them


def passes(raw_path: bytes) -> bool:
    """Whether a path, still percent-encoded, is one of the API. What could be read as another path by somebody on the way is
    not."""
    if not _PATH.fullmatch(raw_path):
        return False
    plain = unquote_to_bytes(raw_path)
    bad = any(byte < 0x20 or byte == 0x7F for byte in plain) or b"\\" in plain or b"//" in plain
    return not bad and not any(part in (b".", b"..") for part in plain.split(b"/"))


def request_headers(given: Iterable[tuple[bytes, bytes]], *, token: str, agent: str) -> list[tuple[str, str]]:
    """The headers for the workspace, with its token."""
    found = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in given if name in _ASKED]
    return [*found, ("authorization", f"Bearer {token}"), ("user-agent", agent)]


def response_headers(given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers for the page. Cookies of the workspace are none of its business."""
    sent = [(name.lower(), value) for name, value in given]
    return [*((name, value) for name, value in sent if name in _ANSWERED), *_WALLS]


def check_conditions(path: str, body: bytes, lacks: Collection[str]) -> None:
    """Raises EndpointNotFound for a create or an edit with a condition that this workspace would ignore: what was only to be
    checked would be done."""
    if VALIDATION not in lacks or not _SPECIFIES.fullmatch(path):
        return
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        asked = {}  # the workspace says what is wrong with it
    for name in _CONDITIONS:
        if isinstance(asked, dict) and asked.get(name) not in (None, False):
            raise EndpointNotFound(f"field '{name}': this workspace does not know it and would apply the specification at once.")
