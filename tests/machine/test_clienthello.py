"""What a client offers at the beginning of TLS, as real clients say it."""

from __future__ import annotations

import contextlib
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.machine.clienthello import MOST, Incomplete, Offer, offer


def hello(*protocols: str, server: str | None = "bricks.example.com") -> bytes:
    """The first bytes of a client."""
    context = ssl.create_default_context()
    context.check_hostname = False
    if protocols:
        context.set_alpn_protocols(protocols)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=server).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("protocols", [(), ("h2",), ("h2", "http/1.1"), ("grpc-exp", "h2"), ("http/1.1",)])
@pytest.mark.parametrize("server", ["bricks.example.com", None])
def test_the_protocols_are_those_of_the_client(protocols: tuple[str, ...], server: str | None) -> None:
    wanted = Offer(tls=True, protocols=tuple(each.encode() for each in protocols))
    said = hello(*protocols, server=server)
    assert offer(said) == wanted
    assert offer(said + b"more") == wanted


def test_it_asks_for_no_more_than_it_needs() -> None:
    said = hello("h2")
    for count in range(len(said)):
        found = offer(said[:count])
        assert isinstance(found, Incomplete)
        assert count < found.needed <= len(said)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n", b"\x00", b"\x15\x03\x01\x00\x02"])
def test_what_is_no_tls_is_known_by_its_first_byte(said: bytes) -> None:
    assert offer(said) == Offer(tls=False)


@given(st.binary(max_size=400), st.binary(max_size=40))
def test_nothing_breaks_it(said: bytes, before: bytes) -> None:
    """Any bytes, and any damage to a right beginning."""
    whole = hello("h2", "http/1.1")
    for data in (said, b"\x16\x03\x01" + said, whole[: 5 + len(before)] + before + whole[5 + 2 * len(before) :]):
        found = offer(data)
        assert isinstance(found, Offer) or len(data) < found.needed <= MOST
