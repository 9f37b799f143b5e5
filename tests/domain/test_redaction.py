"""The values of secrets in text: hidden in every form in which text is commonly shown."""

from __future__ import annotations

import html
import json

from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.redaction import REDACTED, SHORTEST, SHORTEST_LINE, Redactor

PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n"


@given(
    st.text(min_size=SHORTEST).filter(lambda text: len(text.strip()) >= SHORTEST and text not in REDACTED), st.text(), st.text()
)
def test_nothing_of_a_value_is_left(value: str, before: str, after: str) -> None:
    hide = Redactor([value])
    for shown in (value, repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False), html.escape(value)):
        assert REDACTED in hide.text(before + shown + after)
    assert hide.text(value) == REDACTED
    encoded = value.encode(errors="surrogatepass")
    assert hide.data(encoded) == b"*" * len(encoded)


def test_a_value_that_is_part_of_another_leaves_nothing() -> None:
    hide = Redactor(["pass", "password1", "password12"])
    assert hide.text("password12 password1 pass") == " ".join([REDACTED] * 3)


def test_lines_of_a_key_are_hidden_one_by_one() -> None:
    hide = Redactor([PEM])
    assert hide.text(PEM) == REDACTED
    for line in PEM.splitlines():
        assert hide.text(f"> {line} <") == f"> {REDACTED} <"
    assert Redactor(["aaaa\nbb"]).text("bb aaaa") == "bb aaaa", f"lines below {SHORTEST_LINE} characters are too common"


def test_short_values_hide_nothing() -> None:
    assert not Redactor(["", "1", "abc"])
    assert Redactor(["", "1", "abc"]).text("abc 1") == "abc 1"


def test_blanks_around_a_value_do_not_make_it_longer() -> None:
    for value in ("    ", "\n\n\n\n", "1\r\n\n", " ab\t"):
        assert not Redactor([value])
        assert Redactor([value]).text("ab = 1") == "ab = 1"
        assert Redactor([value]).data(b"ab    = 1") == b"ab    = 1"


def test_a_value_is_hidden_without_the_blanks_around_it() -> None:
    hide = Redactor(["a<&b\n", "it's\n", "ab\r\ncd\r\n"])
    for shown in (html.escape("a<&b"), html.escape("it's"), "it's", "ab\r\ncd", "ab\ncd", "ab\ncd\n", json.dumps("ab\ncd")[1:-1]):
        assert hide.text(f"> {shown}") == f"> {REDACTED}"


def test_json_is_hidden_at_every_depth_and_stays_json() -> None:
    hide = Redactor(["hunter2", "12345"])
    value = {"a": ["hunter2", {"hunter2": "x hunter2"}], "n": 12345, "f": 1.5, "t": True, "none": None}
    assert hide.json(value) == {
        "a": [REDACTED, {REDACTED: f"x {REDACTED}"}], "n": REDACTED, "f": 1.5, "t": True, "none": None,
    }  # fmt: skip
