"""Forms, read in memory and as they arrive: the same parts, however the body is cut into chunks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.api.edge.forms import form_parts, stream_parts
from brickyard.domain.errors import MalformedRequest
from tests.support.golden import Golden

BOUNDARY = b"x-y"
NAMES = st.text("abc", min_size=1, max_size=3)
# Contents that look like boundaries, ends of lines and heads. (Clients choose a boundary that is not in what they send.)
CONTENTS = st.lists(st.sampled_from([b"\r\n", b"--", b"x-y", b"x", b"\r\n--x-", b"\0", b"abc"]), max_size=8).map(b"".join)


async def read(chunks: list[bytes]) -> dict[str, bytes]:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    parts: dict[str, bytes] = {}
    async for name, piece in stream_parts(body(), BOUNDARY):
        parts[name] = b"" if not piece else parts[name] + piece
    return parts


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    return [body[a:b] for a, b in itertools.pairwise(edges)]


@given(
    st.dictionaries(NAMES, CONTENTS.filter(lambda text: b"--x-y" not in text), max_size=4),
    st.lists(st.integers(min_value=0), max_size=12),
)
def test_both_ways_read_the_same(parts: dict[str, bytes], places: list[int]) -> None:
    body = b"".join(
        b'--x-y\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), content)
        for name, content in parts.items()
    )
    body += b"--x-y--\r\n"
    assert asyncio.run(read(cut(body, places))) == form_parts(body, BOUNDARY) == parts


NO_FORMS = {
    "empty": b"",
    "other": b"nothing of a form",
    "cut": b'--x-y\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x-y',
    "nameless": b"--x-y\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x-y--",
    "long header": b"--x-y\r\n" + b"x" * 20_000,
    "many headers": b"--x-y\r\n" + b"a: b\r\n" * 20 + b"\r\n1\r\n--x-y--",
    "many parts": b'--x-y\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 21 + b"--x-y--",
}


@pytest.mark.parametrize("name", NO_FORMS)
def test_what_is_no_form_is_refused(name: str, golden: Golden) -> None:
    with golden.refused(MalformedRequest) as whole:
        asyncio.run(read(cut(NO_FORMS[name], [])))

    @given(st.lists(st.integers(min_value=0), max_size=12))
    def in_any_pieces(places: list[int]) -> None:
        with pytest.raises(MalformedRequest) as caught:
            asyncio.run(read(cut(NO_FORMS[name], places)))
        assert str(caught.value) == str(whole.value)

    in_any_pieces()


def test_twenty_parts_are_enough() -> None:
    body = b"".join(b'--x-y\r\nContent-Disposition: form-data; name="%d"\r\n\r\n1\r\n' % at for at in range(20)) + b"--x-y--"
    assert len(asyncio.run(read([body]))) == 20
