"""The paths of requests to the proxies of clusters' web servers."""

from __future__ import annotations

import re

from starlette.types import Scope

_DOTS = re.compile(r"/(\.|%2e){1,2}(?=[/;?]|$)", re.IGNORECASE)  # "." and ".." segments, plain or percent-encoded


def raw(scope: Scope) -> str:
    """The path as it was sent. A decoded path of another kind could look like one of ours."""
    sent: bytes = scope.get("raw_path") or scope["path"].encode()
    return sent.decode("latin-1")


def climbs(path: str) -> bool:
    """Whether a path has segments that lead out of it."""
    return _DOTS.search(path) is not None
