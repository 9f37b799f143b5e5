"""The agent's own HTTP server: whom it listens to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from brickyard.agent.link.http import Client, HttpError, Request, Response, Server
from brickyard.machine.frames import Streams
from tests.support.patience import PATIENCE_S

RIGHT, WRONG = "Authorization: Bearer right", "authorization: Bearer wrong"


class Noted:
    """A site for clients with the token `right`."""

    def __init__(self) -> None:
        self.handled: list[Request] = []

    def knows(self, token: str) -> bool:
        return token == "right"

    async def handle(self, request: Request) -> Response:
        self.handled.append(request)
        return Response(200, b"{}")

    async def tunnel(self, request: Request) -> Streams | Response:
        raise AssertionError(request)


async def answers(headers: Sequence[str]) -> tuple[list[Request], str]:
    """The requests that are handled, and what is answered to one with these headers, until the connection ends."""
    site = Noted()
    server = Server(site, host="127.0.0.1")
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        lines = ["GET /v1/status HTTP/1.1", "Host: here", "Connection: close", *headers]
        writer.write("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n")
        said = (await asyncio.wait_for(reader.read(), PATIENCE_S)).decode()
        writer.close()
    finally:
        await server.stop()
    return site.handled, said


@pytest.mark.parametrize("headers", [(RIGHT, WRONG), (WRONG, RIGHT), (RIGHT, RIGHT)])
def test_two_authorization_headers_are_refused(headers: Sequence[str]) -> None:
    handled, said = asyncio.run(answers(headers))
    assert handled == []
    assert said.startswith("HTTP/1.1 400 ")
    assert "two Authorization headers" in said


def test_one_is_looked_at() -> None:
    _, said = asyncio.run(answers([RIGHT]))
    assert said.startswith("HTTP/1.1 200 ")
    assert "\r\nConnection: close\r\n" in said, "as the request asks"
    for headers in ([WRONG], []):
        handled, said = asyncio.run(answers(headers))
        assert (handled, said[:13]) == ([], "HTTP/1.1 401 ")


async def test_a_kept_connection_is_not_replaced_when_the_server_has_ended() -> None:
    """The server is killed, and a stranger takes its port before the next request: the token must not go there."""

    strangers: list[bytes] = []
    alive = True

    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        strangers.append(await reader.read(1000))
        writer.close()

    server = Server(Noted(), host="127.0.0.1")
    await server.start()
    client = Client()

    async def ask() -> Response:
        return await client.request("GET", server.url, bearer="right", timeout_s=PATIENCE_S, may_connect=lambda: alive)

    assert (await ask()).status == 200
    await server.stop()
    port = int(server.url.rpartition(":")[2])
    async with await asyncio.start_server(stranger, "127.0.0.1", port, reuse_address=True):
        alive = False
        with pytest.raises(HttpError, match="has ended"):
            await ask()
        assert strangers == []
        alive = True
        with pytest.raises(HttpError):
            await ask()
        assert len(strangers) == 1, "and this is what would have come there"
