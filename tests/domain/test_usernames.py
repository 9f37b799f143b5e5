"""Names that could be mistaken for others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.usernames import unclear


@pytest.mark.parametrize(
    "name",
    [
        "ada@example.com",
        "o_o+1@x-y.z",
        "müller@example.com",
        "иван.петров@example.com",
        "佐々木たろー@example.com",
        "김철수@example.com",
        "νίκος@x.gr",
    ],
)
def test_names_of_people(name: str) -> None:
    assert unclear(name) == ""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("\u0430dmin@example.com", "Cyrillic and Latin"),
        ("admin@ex\u0430mple.com", "Cyrillic and Latin"),
        ("\u03b1dmin@example.com", "Greek and Latin"),
        ("\uff41\uff44\uff4d\uff49\uff4e@example.com", "'admin@example.com'"),
        ("\ufb01le@example.com", "'file@example.com'"),
        ("mu\u0308ller@example.com", "'müller@example.com'"),
        ("admin\ufe0f@example.com", "U+FE0F"),
        ("admin\u2800@example.com", "U+2800"),
        ("admin\u115f@example.com", "U+115F"),
        ("admin@example\u2024com", "'admin@example.com'"),
        ("\U0001f600@example.com", "U+1F600"),
    ],
)
def test_names_that_look_like_others(name: str, why: str) -> None:
    assert why in unclear(name)


@given(st.text(st.characters(codec="ascii")))
def test_ascii_is_clear(name: str) -> None:
    assert unclear(name) == ""


@given(st.text())
def test_every_name_has_an_answer(name: str) -> None:
    assert isinstance(unclear(name), str)
