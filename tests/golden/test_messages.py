"""The file of sentences has none of tests that are no longer there."""

from __future__ import annotations

from tests.support import golden


def test_every_sentence_is_of_a_test() -> None:
    for file, tests in golden.messages().items():
        assert golden.known(file, tests) == tests, f"{file}: ./dev python -m tests.golden"
