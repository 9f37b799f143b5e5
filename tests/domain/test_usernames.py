"""Names that could be mistaken for others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.usernames import unclear
from tests.support.golden import Golden


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
    "name",
    [
        "\u0430dmin@example.com",
        "admin@ex\u0430mple.com",
        "\u03b1dmin@example.com",
        "\uff41\uff44\uff4d\uff49\uff4e@example.com",
        "\ufb01le@example.com",
        "mu\u0308ller@example.com",
        "admin\ufe0f@example.com",
        "admin\u2800@example.com",
        "admin\u115f@example.com",
        "admin@example\u2024com",
        "\U0001f600@example.com",
    ],
)
def test_names_that_look_like_others(name: str, golden: Golden) -> None:
    golden(unclear(name))


@given(st.text(st.characters(codec="ascii")))
def test_ascii_is_clear(name: str) -> None:
    assert unclear(name) == ""


@given(st.text())
def test_every_name_has_an_answer(name: str) -> None:
    assert isinstance(unclear(name), str)
