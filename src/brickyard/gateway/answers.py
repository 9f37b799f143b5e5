"""How the proxies of clusters' web servers answer: what a cluster sends, streamed, and their own redirects and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.types import Scope, Send

from brickyard.api.edge.dialects import PLAIN
from brickyard.domain.errors import ApiError
from brickyard.gateway import pages

if TYPE_CHECKING:
    import aiohttp

MAX_REWRITTEN = 8 << 20  # bytes of a page or of data that are searched for links; the rest passes unchanged
CHUNK = 256 << 10
Headers = list[tuple[bytes, bytes]]
_TITLES = {403: "Not allowed", 404: "Not found", 405: "Method not allowed", 409: "Not running", 503: "Temporarily unavailable"}


class BrokeOff(Exception):
    """The cluster's answer broke off after its start."""


async def pass_on(
    response: aiohttp.ClientResponse,
    headers: Headers,
    send: Send,
    *,
    ended: Callable[[], bool],
    rewrite: Callable[[bytes], bytes] | None = None,
    without_body: bool = False,
) -> None:
    """Streams the cluster's answer to the client, no faster than the client reads, until `ended`. `rewrite` changes its
    beginning. Raises aiohttp's errors only before the answer has begun, and BrokeOff afterwards."""
    import aiohttp  # noqa: PLC0415 - a fifth of a server's start; see nodes/client.py

    first = rewrite(await _up_to(response.content, MAX_REWRITTEN)) if rewrite is not None else b""
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if not without_body:
        if first:
            await send({"type": "http.response.body", "body": first, "more_body": True})
        try:
            async for chunk in response.content.iter_chunked(CHUNK):
                if ended():
                    return
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except (aiohttp.ClientError, TimeoutError) as error:
            # The answer must not look complete: this error makes the server close the connection.
            raise BrokeOff from error
    await send({"type": "http.response.body", "body": b""})


def opens_page(scope: Scope) -> bool:
    """Whether a browser asks for a page, without a token."""
    headers = dict(scope["headers"])
    return scope["method"] == "GET" and b"text/html" in headers.get(b"accept", b"") and b"authorization" not in headers


def with_query(path: str, scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    return path + (f"?{query}" if query else "")


async def redirect(send: Send, target: str, more: tuple[tuple[bytes, bytes], ...] = pages.HEADERS) -> None:
    headers = [
        (b"location", target.encode("latin-1")),
        (b"content-length", b"0"),
        (b"cache-control", b"no-store"),
        *more,
    ]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def allow(send: Send, allowed: tuple[tuple[bytes, bytes], ...]) -> None:
    """Answers a CORS preflight request: to the browser, a cluster's page and this server are different origins."""
    await send({"type": "http.response.start", "status": 204, "headers": [*pages.HEADERS, *allowed]})
    await send({"type": "http.response.body", "body": b""})


async def refuse(scope: Scope, send: Send, error: ApiError, *, page: str) -> None:
    """Sends the error as a page for browsers and in the API's format for programs. `page`: where a browser that is not logged in
    comes back to afterwards; "" if nowhere."""
    status = error.http_status
    if b"text/html" not in dict(scope["headers"]).get(b"accept", b""):
        reply = PLAIN.reply(error)
        await reply_with(send, status, reply.body, b"application/json", reply.headers)
    elif status == 401 and page and scope["method"] == "GET":
        await redirect(send, f"/login?next={quote(with_query(page, scope), safe='')}", ())
    else:
        body = pages.error_page(_TITLES.get(status, "Request failed"), error.message)
        await reply_with(send, status, body, b"text/html; charset=utf-8")


async def reply_with(send: Send, status: int, body: bytes, kind: bytes, extra: Iterable[tuple[str, str]] = ()) -> None:
    """Sends an answer of our own."""
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")]
    headers += [(name.encode(), value.encode()) for name, value in extra]
    # Our own page may submit its form, since it contains nothing from a cluster.
    walls = [
        (name, value) for name, value in pages.HEADERS if name not in (b"content-security-policy", b"access-control-allow-origin")
    ]
    csp = (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
    )
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *walls, csp]})
    await send({"type": "http.response.body", "body": body})


async def _up_to(content: aiohttp.StreamReader, limit: int) -> bytes:
    """Reads the content, up to about `limit` bytes."""
    parts, size = [], 0
    while size < limit and (chunk := await content.read(min(CHUNK, limit - size))):
        parts.append(chunk)
        size += len(chunk)
    return b"".join(parts)
