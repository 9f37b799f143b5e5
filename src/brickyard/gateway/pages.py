"""What the Spark UI proxy changes in the content it passes on, and the few pages of its own. Pure."""

from __future__ import annotations

import re
from html import escape
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
# An opaque origin has no storage, and Spark's scripts fail without it.
_SHIM = (
    b'<script>(function(){["localStorage","sessionStorage"].forEach(function(n){try{window[n]}catch(e){var m={};'
    b"Object.defineProperty(window,n,{value:{getItem:function(k){return k in m?m[k]:null},setItem:function(k,v){m[k]=String(v)},"
    b'removeItem:function(k){delete m[k]}}})}});try{document.cookie}catch(e){Object.defineProperty(document,"cookie",'
    b'{get:function(){return""},set:function(){}})}})();</script>'
)
_HEAD = re.compile(rb"<head[^>]*>", re.IGNORECASE)
# A worker's web UI is off; the logs that Spark's pages link to are read through its agent.
_LOG_LINK = re.compile(rb"https?://[^\s\"'<>]*?/logPage/?\?appId=[^\s\"'<>]*?executorId=(\d+)[^\s\"'<>]*?logType=(stdout|stderr)")
_KEPT = frozenset(
    {b"content-type", b"content-language", b"content-disposition", b"cache-control", b"etag", b"last-modified", b"expires",
     b"vary", b"accept-ranges", b"content-range"}
)  # fmt: skip


def response_headers(given: list[tuple[bytes, bytes]], *, prefix: str) -> list[tuple[bytes, bytes]]:
    """The headers to send on: those that describe the content, a location that leads back here, and the security headers."""
    kept = [(name.lower(), value) for name, value in given if name.lower() in _KEPT]
    for name, value in given:
        if name.lower() == b"location":
            kept.append((b"location", location(value.decode("latin-1"), prefix=prefix).encode("latin-1")))
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
    shimmed = _HEAD.sub(lambda head: head.group() + _SHIM, body, count=1)
    return data(shimmed, prefix=prefix)


def data(body: bytes, *, prefix: str) -> bytes:
    """The same rewriting of links for JSON data that pages are built from."""
    return _LOG_LINK.sub(lambda link: b"%s/executor-logs/%s/%s" % (prefix.encode(), link.group(1), link.group(2)), body)


def login_page(cluster_id: str, message: str) -> bytes:
    """A form that asks for a token. Submitting it yields a link that opens only this cluster's UI."""
    return _document(
        "input{width:100%;font:inherit;padding:.4rem;box-sizing:border-box}"
        "button{font:inherit;margin-top:1rem;padding:.4rem 1rem}",
        f"<h1>Spark UI of {escape(cluster_id)}</h1><p>{escape(message)}</p>"
        f'<form method="post" action="/spark-ui/{escape(cluster_id)}/~login"><label for="token">Access token</label>'
        '<input id="token" name="token" type="password" autocomplete="off" required autofocus>'
        '<button type="submit">Open</button></form>',
    )


def error_page(title: str, message: str) -> bytes:
    """A page that says why nothing can be shown."""
    return _document("", f"<h1>{escape(title)}</h1><p>{escape(message)}</p>")


def _document(style: str, body: str) -> bytes:
    """Lays out one of our own pages; fits any screen, including phones."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>Spark UI</title><style>body{font:16px/1.5 sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem;"
        f"overflow-wrap:anywhere}}{style}</style></head><body>{body}</body></html>"
    ).encode()
