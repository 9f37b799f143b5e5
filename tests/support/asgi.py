"""Calls of an ASGI application without a socket: for tests that make thousands of them on the application's own event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from starlette.types import ASGIApp, Message


async def call(
    app: ASGIApp,
    method: str,
    path: str,
    *,
    token: str,
    body: Any = None,
    raw: bytes | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    **query: Any,
) -> tuple[int, Any]:
    """Status and decoded JSON of one request; `raw` is sent as it is."""
    sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": urlencode(query).encode(),
        "headers": [
            (b"authorization", f"Bearer {token}".encode()),
            (b"content-length", b"%d" % len(sent)),
            *((name.encode(), value.encode()) for name, value in headers.items()),
        ],
        "server": ("testserver", 80),
        "client": ("127.0.0.1", 1),
    }
    answers: list[Message] = []
    left = [sent]

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()  # the client stays
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    async def send(message: Message) -> None:
        answers.append(message)

    await app(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in answers)
    return answers[0]["status"], json.loads(content or b"{}")
