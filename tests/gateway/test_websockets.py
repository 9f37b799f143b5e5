"""Websockets to a cluster's web server: who gets one, what it carries, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from brickyard.api.edge.websockets import MESSAGE_BYTES
from brickyard.gateway import websockets
from tests.gateway.uiworld import ID, World, world

ECHO = f"/spark-ui/{ID}/echo"


async def bearer(w: World, user: str = "me@example.com") -> dict[str, str]:
    return {"Authorization": f"Bearer {await w.token(user)}"}


async def until_closed(w: World, *, left: int = 0) -> None:
    """Until the cluster has no more than so many open."""
    while w.spark.sockets > left:
        await asyncio.sleep(0.01)


async def test_it_carries_text_bytes_and_the_subprotocol(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        headers = {**await bearer(w), "Cookie": "secret=1"}
        async with http.ws_connect(w.url + ECHO, headers=headers, protocols=("other", "chat")) as opened:
            assert opened.protocol == "chat"
            for _ in range(3):
                await opened.send_str("grüße")
                assert await opened.receive_str() == "grüße"
            large = bytes(range(256)) * (MESSAGE_BYTES // 512)
            await opened.send_bytes(large)
            assert await opened.receive_bytes() == large
        await until_closed(w)
        asked = w.spark.seen[-1]
        assert asked.headers["Authorization"] == "Bearer signed", "the caller's own token stays here"
        assert "Cookie" not in asked.headers


async def test_a_link_opens_one_too(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        caller = await w.tokens.authenticate(await w.token("me@example.com"))
        assert caller is not None
        link, _ = w.links.make(caller, ID)
        async with http.ws_connect(f"{w.url}/spark-ui/{ID}/~{link}/echo") as opened:
            await opened.send_str("x")
            assert await opened.receive_str() == "x"


@pytest.mark.parametrize(
    ("path", "user", "status", "code"),
    [
        (ECHO, None, 401, "UNAUTHENTICATED"),
        (ECHO, "stranger@example.com", 403, "PERMISSION_DENIED"),
        ("/spark-ui/0101-000000-otherone/echo", "me@example.com", 404, "RESOURCE_DOES_NOT_EXIST"),
        (f"/spark-ui/{ID}/nothing", "me@example.com", 404, "RESOURCE_DOES_NOT_EXIST"),
        (f"/spark-ui/{ID}/../{ID}/echo", "me@example.com", 404, "RESOURCE_DOES_NOT_EXIST"),
    ],
)
async def test_others_get_an_answer_instead(  # noqa: PLR0917 - pytest passes them by name
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, user: str | None, status: int, code: str
) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        headers = await bearer(w, user) if user else {}
        asking = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        asking["Sec-WebSocket-Key"] = "AAAAAAAAAAAAAAAAAAAAAA=="
        async with http.get(URL(w.url + path, encoded=True), headers={**headers, **asking}) as answer:
            assert (answer.status, (await answer.json())["error_code"]) == (status, code)
        assert w.spark.sockets == 0
    assert not caplog.records, "a refusal is no error of ours"


async def test_a_cluster_that_does_not_answer_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        w.sources.upstream = w.sources.upstream._replace(url="http://127.0.0.1:1")
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(w.url + ECHO, headers=await bearer(w))
        assert refused.value.status == 503
        assert w.sources.forgotten == [ID]


@pytest.mark.parametrize(("said", "code"), [("stop", 4001), ("vanish", 1011)])
async def test_the_client_learns_how_the_cluster_ended_it(tmp_path: Path, said: str, code: int) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        opened = await http.ws_connect(w.url + ECHO, headers=await bearer(w))
        await opened.send_str(said)
        assert (await opened.receive()).type is aiohttp.WSMsgType.CLOSE
        assert opened.close_code == code


async def test_it_ends_with_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websockets, "CHECK_S", 0.05)

    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        first, second = await w.token("me@example.com"), await w.token("me@example.com")
        caller = await w.tokens.authenticate(first)
        assert caller is not None
        opened, other = [
            await http.ws_connect(w.url + ECHO, headers={"Authorization": f"Bearer {token}"}) for token in (first, second)
        ]
        await w.tokens.delete(caller, caller.token_id)
        assert (await opened.receive()).type is aiohttp.WSMsgType.CLOSE
        assert opened.close_code == 1008
        await other.send_str("x")
        assert await other.receive_str() == "x", "the other token's goes on"
        await until_closed(w, left=1)
        await other.close()


async def test_it_ends_with_the_server(tmp_path: Path) -> None:
    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        async with http.ws_connect(w.url + ECHO, headers=await bearer(w)) as opened:
            await opened.send_str("x")
            await opened.receive_str()
            w.server.should_exit = True
            assert (await opened.receive()).type is aiohttp.WSMsgType.CLOSE
            assert opened.close_code == 1012
        await until_closed(w)


async def test_the_clusters_side_ends_when_the_client_vanishes(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        async with aiohttp.ClientSession() as http:
            opened = await http.ws_connect(w.url + ECHO, headers=await bearer(w))
            await opened.send_str("x")
            await opened.receive_str()
            transport = opened.get_extra_info("socket")
            assert w.spark.sockets == 1
            transport.shutdown(2)
        await until_closed(w)


async def test_messages_and_their_number_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websockets, "WEBSOCKETS", websockets.WEBSOCKETS._replace(share=1, admin_share=1))

    async with world(tmp_path) as w, aiohttp.ClientSession() as http:
        headers = await bearer(w)
        opened = await http.ws_connect(w.url + ECHO, headers=headers)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(w.url + ECHO, headers=headers)
        assert refused.value.status == 400
        with contextlib.suppress(ConnectionError):  # closed at the header, while we still send
            await opened.send_bytes(b"z" * (MESSAGE_BYTES + 1))
        assert (await opened.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        await until_closed(w)

        async def again() -> Any:
            try:
                return await http.ws_connect(w.url + ECHO, headers=headers)
            except aiohttp.WSServerHandshakeError:
                return None

        while (opened := await again()) is None:
            await asyncio.sleep(0.01)
        await opened.close()


async def test_a_client_that_reads_nothing_slows_the_cluster(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        async with aiohttp.ClientSession() as http:
            opened = await http.ws_connect(w.url + ECHO, headers=await bearer(w))
            await opened.send_str("flood")
            before = -1
            while before != w.spark.sent or not w.spark.sent:  # until it stands still
                before = w.spark.sent
                await asyncio.sleep(0.3)
            assert w.spark.sent < 100, "some buffers are full, and no more"
        await until_closed(w)
