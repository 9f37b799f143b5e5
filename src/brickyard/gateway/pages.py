"""What the Spark UI proxy changes in what it passes on, and the few pages of its own. Pure."""

from __future__ import annotations

import re
from html import escape
from urllib.parse import urlsplit

# A page from a cluster is hostile until proven otherwise: it runs in an origin of its own, from which nothing else of this
# server's can be read, whatever scripts it holds.
HEADERS = (
    (b"content-security-policy", b"sandbox allow-scripts allow-forms allow-popups allow-downloads"),
    (b"access-control-allow-origin", b"*"),  # that origin has no name; credentials are never sent along
    (b"referrer-policy", b"no-referrer"),  # the link is the permission
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
)
# What scripts from that origin may ask for here, where the address holds a pass: to read, whatever headers they add.
ALLOWED = (
    (b"access-control-allow-methods", b"GET, HEAD"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"600"),
)
# Without an origin there is no storage, and Spark's scripts stop at its absence.
_SHIM = (
    b'<script>(function(){["localStorage","sessionStorage"].forEach(function(n){try{window[n]}catch(e){var m={};'
    b"Object.defineProperty(window,n,{value:{getItem:function(k){return k in m?m[k]:null},setItem:function(k,v){m[k]=String(v)},"
    b'removeItem:function(k){delete m[k]}}})}});try{document.cookie}catch(e){Object.defineProperty(document,"cookie",'
    b'{get:function(){return""},set:function(){}})}})();</script>'
)
_HEAD = re.compile(rb"<head[^>]*>", re.IGNORECASE)
# A worker's own web UI is off; the logs that Spark's pages link to are read through its agent.
_LOG_LINK = re.compile(rb"https?://[^\s\"'<>]*?/logPage/?\?appId=[^\s\"'<>]*?executorId=(\d+)[^\s\"'<>]*?logType=(stdout|stderr)")
_KEPT = frozenset(
    {b"content-type", b"content-language", b"content-disposition", b"cache-control", b"etag", b"last-modified", b"expires",
     b"vary", b"accept-ranges", b"content-range"}
)  # fmt: skip


def response_headers(given: list[tuple[bytes, bytes]], *, prefix: str) -> list[tuple[bytes, bytes]]:
    """The headers to send on: only what describes the content, a location that leads back here, and the walls."""
    kept = [(name.lower(), value) for name, value in given if name.lower() in _KEPT]
    for name, value in given:
        if name.lower() == b"location":
            kept.append((b"location", location(value.decode("latin-1"), prefix=prefix).encode("latin-1")))
    return [*kept, *HEADERS]


def location(target: str, *, prefix: str) -> str:
    """A redirect of the cluster's, as a path below `prefix`: it never leads anywhere else."""
    parts = urlsplit(target)
    path = parts.path if parts.path.startswith("/") else f"/{parts.path}"
    if path != prefix and not path.startswith(prefix + "/"):
        path = prefix + "/" + path.lstrip("/")
    return path + (f"?{parts.query}" if parts.query else "")


def page(body: bytes, *, prefix: str) -> bytes:
    """An HTML page with what it needs to live in an origin of its own, and with links to logs that work."""
    shimmed = _HEAD.sub(lambda head: head.group() + _SHIM, body, count=1)
    return data(shimmed, prefix=prefix)


def data(body: bytes, *, prefix: str) -> bytes:
    """The same for data that pages are made from."""
    return _LOG_LINK.sub(lambda link: b"%s/executor-logs/%s/%s" % (prefix.encode(), link.group(1), link.group(2)), body)


def login_page(cluster_id: str, message: str) -> bytes:
    """Asks for a token. Sent as a form, it becomes a link that opens this cluster's UI and nothing else."""
    return _document(
        "input{width:100%;font:inherit;padding:.4rem;box-sizing:border-box}"
        "button{font:inherit;margin-top:1rem;padding:.4rem 1rem}",
        f"<h1>Spark UI of {escape(cluster_id)}</h1><p>{escape(message)}</p>"
        f'<form method="post" action="/spark-ui/{escape(cluster_id)}/~login"><label for="token">Access token</label>'
        '<input id="token" name="token" type="password" autocomplete="off" required autofocus>'
        '<button type="submit">Open</button></form>',
    )


def error_page(title: str, message: str) -> bytes:
    """Says why there is nothing to see."""
    return _document("", f"<h1>{escape(title)}</h1><p>{escape(message)}</p>")


def _document(style: str, body: str) -> bytes:
    """A page of ours, as wide as the screen, telephones included."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>Spark UI</title><style>body{font:16px/1.5 sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem;"
        f"overflow-wrap:anywhere}}{style}</style></head><body>{body}</body></html>"
    ).encode()
