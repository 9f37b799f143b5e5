"""What the Spark UI proxy changes in the content it passes on, and the few pages of its own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import NamedTuple
from urllib.parse import urlsplit

# Treat a cluster's page as hostile: it runs in a separate origin, from which its scripts cannot read anything else on this
# server.
HEADERS = (
    (b"content-security-policy", b"sandbox allow-scripts allow-forms allow-popups allow-downloads"),
    (b"access-control-allow-origin", b"*"),  # a sandboxed origin is opaque; credentials are never sent
    (b"referrer-policy", b"no-referrer"),  # the link itself grants access
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
)
# What scripts from that origin may do here if the URL contains a pass: read, with any additional headers.
ALLOWED = (
    (b"access-control-allow-methods", b"GET, HEAD"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"600"),
)
# An opaque origin has no storage and no service workers, and may not change its path; scripts fail without them.
_SHIM = (
    b'<script>(function(){["localStorage","sessionStorage"].forEach(function(n){try{window[n]}catch(e){var m={};'
    b"Object.defineProperty(window,n,{value:{getItem:function(k){return k in m?m[k]:null},setItem:function(k,v){m[k]=String(v)},"
    b'removeItem:function(k){delete m[k]}}})}});try{document.cookie}catch(e){Object.defineProperty(document,"cookie",'
    b'{get:function(){return""},set:function(){}})}try{navigator.serviceWorker}catch(e){Object.defineProperty(navigator,'
    b'"serviceWorker",{value:undefined})}["pushState","replaceState"].forEach(function(n){var f=history[n];history[n]='
    b"function(){try{return f.apply(history,arguments)}catch(e){}}})})();</script>"
)
_HEAD = re.compile(rb"<head[^>]*>", re.IGNORECASE)
# A worker's web UI is off; the logs that Spark's pages link to are read through its agent.
_LOG_LINK = re.compile(rb"https?://[^\s\"'<>]*?/logPage/?\?appId=[^\s\"'<>]*?executorId=(\d+)[^\s\"'<>]*?logType=(stdout|stderr)")
_KEPT = frozenset(
    {b"content-type", b"content-language", b"content-disposition", b"cache-control", b"etag", b"last-modified", b"expires",
     b"vary", b"accept-ranges", b"content-range"}
)  # fmt: skip

_HISTORY = re.compile(r"/(history|static|api|logPage)(/|$)")  # a history server's own; with a query, also its run list at "/"


class Upstream(NamedTuple):
    """The location of a cluster's UI: its base URL, the token that it requires, the path below which a history server has the
    pages of the run shown, and, if it is in a separate network, the Unix socket that leads to it."""

    url: str
    bearer: str
    run: str = ""
    way: str = ""

    def elsewhere(self, path: str, query: str) -> str:
        """The actual path of a page requested at a live UI's path; "" if the paths are the same."""
        if not path:
            return f"{self.run}/jobs/" if self.run else "/"
        if not self.run or _HISTORY.match(path) or (path == "/" and query):
            return ""
        page = self.run + ("/jobs/" if path == "/" else path)
        return page + (f"?{query}" if query else "")


def response_headers(given: Iterable[tuple[bytes, bytes]], *, prefix: str) -> list[tuple[bytes, bytes]]:
    """The headers to send on: those that describe the content, a location that leads back here, and the security headers."""
    kept = []
    for name, value in ((name.lower(), value) for name, value in given):
        if name in _KEPT:
            kept.append((name, value))
        elif name == b"location":
            kept.append((name, location(value.decode("latin-1"), prefix=prefix).encode("latin-1")))
    return [*kept, *HEADERS]


def location(target: str, *, prefix: str) -> str:
    """A redirect of the cluster as a path below `prefix`, so that it never leads elsewhere."""
    parts = urlsplit(target)
    path = parts.path if parts.path.startswith("/") else f"/{parts.path}"
    if path != prefix and not path.startswith(prefix + "/"):
        path = prefix + "/" + path.lstrip("/")
    return path + (f"?{parts.query}" if parts.query else "")


def page(body: bytes, *, prefix: str) -> bytes:
    """An HTML page with the shim for its opaque origin, and with working links to logs."""
    return data(shimmed(body), prefix=prefix)


def shimmed(body: bytes) -> bytes:
    """An HTML page with the shim."""
    return _HEAD.sub(lambda head: head.group() + _SHIM, body, count=1)


def data(body: bytes, *, prefix: str) -> bytes:
    """The same rewriting of links for JSON data that pages are built from."""
    return _LOG_LINK.sub(lambda link: b"%s/executor-logs/%s/%s" % (prefix.encode(), link.group(1), link.group(2)), body)


def error_page(title: str, message: str) -> bytes:
    """A page that says why nothing can be shown."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>Spark UI</title><style>body{font:16px/1.5 sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem;"
        f"overflow-wrap:anywhere}}</style></head><body><h1>{escape(title)}</h1><p>{escape(message)}</p></body></html>"
    ).encode()
